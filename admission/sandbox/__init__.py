"""A whole system without a cluster: an embedded API server, and the demo.

`store` is the API server, made of the rules in `embedded`; `rest` serves it over HTTP, `system`
starts webhook and controller beside it, `bypass_stand_in` asks the bypass policies, and
`demo` is the world that `gpu-admission demo` shows. Nothing but `cli` and tests imports this
package.
"""
