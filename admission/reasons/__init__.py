"""Words for values of `admission.base.causes`: Kueue's, those of users, and back from a text.

`kueue` writes conditions as Kueue does, byte by byte, and `ours` those that Kueue does not have.
`people` writes one sentence for the condition of a pod or owner, for events, warnings and pages;
`next_steps` has the codes and the next steps. `reading` makes values of conditions that another
program or version wrote: only commands and pages use it.
"""
