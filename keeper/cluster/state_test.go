package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestPodState(t *testing.T) {
	status := func(name string, s corev1.ContainerState) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: name, Image: "i:1", State: s}}
	}
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	ended := func(code int32, message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message, Reason: "Reason"}}
	}
	for what, tt := range map[string]struct {
		status corev1.PodStatus
		want   state
	}{
		"new":     {corev1.PodStatus{Phase: corev1.PodPending}, state{waits: "Pending"}},
		"no node": {corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes"}}}, state{waits: "0/3 nodes"}},
		"pulls":   {corev1.PodStatus{ContainerStatuses: status(container, waiting("ContainerCreating", ""))}, state{waits: "ContainerCreating"}},
		"image":   {corev1.PodStatus{ContainerStatuses: status(container, waiting("ErrImagePull", "not found"))}, state{err: "ErrImagePull: image i:1: not found"}},
		"guest":   {corev1.PodStatus{ContainerStatuses: status("guest", waiting("ImagePullBackOff", "x"))}, state{err: "ImagePullBackOff: image i:1: x"}},
		"the guest is installed": {
			corev1.PodStatus{ContainerStatuses: append(status("guest", ended(0, "")), status(container, waiting("ContainerCreating", ""))...)},
			state{waits: "ContainerCreating"},
		},
		"not installed": {corev1.PodStatus{ContainerStatuses: status("guest", ended(1, "no"))}, state{err: "container guest ended with code 1: no"}},
		"runs":          {corev1.PodStatus{ContainerStatuses: status(container, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})}, state{runs: true}},
		"has ended":     {corev1.PodStatus{ContainerStatuses: status(container, ended(0, ""))}, state{err: "PID 1 ended with code 0: Reason"}},
		"says why":      {corev1.PodStatus{ContainerStatuses: status(container, ended(1, " why\n"))}, state{err: "PID 1 ended with code 1: why"}},
		"evicted":       {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"}, state{err: "low on memory"}},
	} {
		if got := podState(&corev1.Pod{Status: tt.status}); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", what, got, tt.want)
		}
	}
}

func TestSandboxState(t *testing.T) {
	of := func(reason, message string, seen int64) state {
		return sandboxState(&unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"generation": int64(2)},
			"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False", "reason": reason, "message": message, "observedGeneration": seen}}},
		}})
	}
	quota := `Error seen: pods "x" is forbidden: exceeded quota: q`
	if s := of("ReconcilerError", quota, 2); s.err != quota {
		t.Errorf("a quota: %+v", s)
	}
	if s := of("ReconcilerError", quota, 1); s != (state{}) {
		t.Errorf("of the start before: %+v", s)
	}
	if s := of("ReconcilerError", "the object has been modified", 2); s.err != "" || !strings.Contains(s.waits, "modified") {
		t.Errorf("what passes: %+v", s)
	}
	if s := of("DependenciesNotReady", "Pod does not exist", 2); s != (state{}) {
		t.Errorf("a new one: %+v", s)
	}
}
