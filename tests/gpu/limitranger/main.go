// Command limitranger records what the API server's LimitRanger does with pods.
//
// It reads cases (LimitRanges and a pod each) as JSON from stdin and writes, for each, the
// stored LimitRanges' validation errors, the pod after defaulting, its annotation, and the
// reasons of every LimitRange.
package main

import (
	"encoding/json"
	"log"
	"os"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	core "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
)

type input struct {
	Ranges []v1.LimitRange `json:"ranges"`
	Pod    v1.Pod          `json:"pod"`
}

type output struct {
	Invalid    [][]string `json:"invalid"`
	Pod        v1.Pod     `json:"pod"`
	Annotation string     `json:"annotation"`
	Reasons    [][]string `json:"reasons"`
}

func main() {
	var cases []input
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		log.Fatal(err)
	}
	results := make([]output, len(cases))
	for i := range cases {
		results[i] = run(&cases[i])
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		log.Fatal(err)
	}
}

func run(c *input) output {
	out := output{Invalid: [][]string{}, Reasons: [][]string{}}
	corev1.SetObjectDefaults_Pod(&c.Pod)
	pod := &core.Pod{}
	convert(&c.Pod, pod)
	for i := range c.Ranges {
		corev1.SetObjectDefaults_LimitRange(&c.Ranges[i])
		internal := &core.LimitRange{}
		convert(&c.Ranges[i], internal)
		out.Invalid = append(out.Invalid, invalid(internal))
		if err := limitranger.PodMutateLimitFunc(&c.Ranges[i], pod); err != nil {
			log.Fatal(err)
		}
	}
	for i := range c.Ranges {
		out.Reasons = append(out.Reasons, reasons(limitranger.PodValidateLimitFunc(&c.Ranges[i], pod)))
	}
	convert(pod, &out.Pod)
	out.Annotation = pod.Annotations["kubernetes.io/limit-ranger"]
	return out
}

func convert(in, out any) {
	if err := legacyscheme.Scheme.Convert(in, out, nil); err != nil {
		log.Fatal(err)
	}
}

func invalid(limitRange *core.LimitRange) []string {
	found := []string{}
	for _, err := range validation.ValidateLimitRange(limitRange) {
		if strings.HasPrefix(err.Field, "spec") {
			found = append(found, err.Field+" "+err.ErrorBody())
		}
	}
	sort.Strings(found)
	return found
}

func reasons(err error) []string {
	found := map[string]bool{}
	if aggregate, ok := err.(interface{ Errors() []error }); ok {
		for _, one := range aggregate.Errors() {
			found[one.Error()] = true
		}
	}
	sorted := []string{}
	for text := range found {
		sorted = append(sorted, text)
	}
	sort.Strings(sorted)
	return sorted
}
