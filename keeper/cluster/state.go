package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A state is what an object says of the start of a sandbox.
type state struct {
	runs  bool
	waits string // for what
	err   string // why it never runs
}

// hopeless are reasons for which a container waits that do not pass by themselves.
var hopeless = []string{
	"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError",
	"CreateContainerError", "RunContainerError", "PostStartHookError", "CrashLoopBackOff",
}

// podState reads the state of a pod.
func podState(p *corev1.Pod) state {
	for _, c := range p.Status.ContainerStatuses {
		what := "container " + c.Name
		if c.Name == container {
			what = "PID 1"
		}
		switch w, t := c.State.Waiting, c.State.Terminated; {
		case t != nil && (t.ExitCode != 0 || c.Name == container):
			return state{err: fmt.Sprintf("%s ended with code %d: %s", what, t.ExitCode, cmp.Or(strings.TrimSpace(t.Message), t.Reason))}
		case w != nil && slices.Contains(hopeless, w.Reason):
			return state{err: fmt.Sprintf("%s: image %s: %s", w.Reason, c.Image, w.Message)}
		case c.Name == container && c.State.Running != nil:
			return state{runs: true}
		}
	}
	if p.Status.Phase == corev1.PodFailed {
		return state{err: cmp.Or(p.Status.Message, p.Status.Reason, "the pod failed")}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return state{waits: cmp.Or(c.Message, c.Reason)}
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			return state{waits: w.Reason}
		}
	}
	return state{waits: string(p.Status.Phase)}
}

// sandboxState reads the state of a Sandbox, which has what the API server said of the pod.
func sandboxState(o *unstructured.Unstructured) state {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, each := range conditions {
		c, is := each.(map[string]any)
		if !is || c["type"] != "Ready" || c["status"] == "True" {
			continue
		}
		seen, _ := c["observedGeneration"].(int64)
		text, _ := c["message"].(string)
		if c["reason"] != "ReconcilerError" || seen != o.GetGeneration() {
			continue
		}
		for _, never := range []string{"is forbidden:", "is invalid:"} { // a quota, a policy of the cluster
			if strings.Contains(text, never) {
				return state{err: text}
			}
		}
		return state{waits: text}
	}
	return state{}
}
