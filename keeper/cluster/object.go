package cluster

import (
	"encoding/base64"
	"errors"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8s "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// What a cluster has of a sandbox.
var (
	sandboxes = schema.GroupVersionResource{Group: "agents.x-k8s.io", Version: "v1alpha1", Resource: "sandboxes"}
	pods      = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

const (
	container = "sandbox" // with PID 1, in the pod
	// installer is the user of the container that copies the guest: not the sandbox's, so that
	// no program inside can read or change that.
	installer = 65532
	// guestImagePath is where the image with the guest has it.
	guestImagePath = "/wolffia-guest"
	// alone is how long PID 1 runs on when its keeper was killed.
	alone = 10 * time.Minute
	// deadlineMargin is how long after its deadline a cluster deletes a sandbox: clocks differ.
	deadlineMargin = 5 * time.Minute
)

// hostname is what a pod may have as its name.
var hostname = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// object returns the Sandbox of a sandbox of a place. It is all of the isolation. object does no I/O.
func object(spec *launch.Spec, of place) (*unstructured.Unstructured, error) {
	if len(spec.Seccomp) == 0 {
		return nil, errors.New("no seccomp filter: a sandbox without one is not started")
	}
	pod, err := k8s.DefaultUnstructuredConverter.ToUnstructured(podSpec(spec))
	if err != nil {
		return nil, err
	}
	marks := labels(spec.ID, spec.Config.Labels, of)
	notes := annotations(spec.Config, spec.CreatedAt, of)
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": sandboxes.GroupVersion().String(),
		"kind":       "Sandbox",
		"metadata":   map[string]any{"name": objectName(spec.ID), "labels": texts(marks), "annotations": texts(notes)},
		"spec": map[string]any{
			"replicas":    int64(1),
			"podTemplate": map[string]any{"metadata": map[string]any{"labels": texts(marks)}, "spec": pod},
		},
	}}
	text, err := o.MarshalJSON()
	notes[noteSpec] = hash(string(text))
	o.SetAnnotations(notes)
	return o, errors.Join(err, setDeadline(o, spec.Deadline))
}

// setDeadline has the cluster delete a Sandbox, should its keeper not have ended it by then; at the zero
// time: not.
func setDeadline(o *unstructured.Unstructured, at time.Time) error {
	spec, _, err := unstructured.NestedMap(o.Object, "spec")
	if err != nil {
		return err
	}
	delete(spec, "shutdownTime")
	delete(spec, "shutdownPolicy")
	if !at.IsZero() {
		spec["shutdownTime"], spec["shutdownPolicy"] = at.Add(deadlineMargin).UTC().Format(time.RFC3339), "Delete"
	}
	return unstructured.SetNestedMap(o.Object, spec, "spec")
}

func texts(m map[string]string) map[string]any {
	all := map[string]any{}
	for k, v := range m {
		all[k] = v
	}
	return all
}

// podSpec returns what runs.
func podSpec(spec *launch.Spec) *corev1.PodSpec {
	c := spec.Config.Kubernetes
	p := &corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		AutomountServiceAccountToken:  new(bool),
		EnableServiceLinks:            new(bool),
		TerminationGracePeriodSeconds: pointer(int64(1)), // PID 1 drops signals
		// Programs get no name from the cluster.
		DNSPolicy: corev1.DNSNone, DNSConfig: &corev1.PodDNSConfig{Nameservers: []string{"127.0.0.1"}},
	}
	if hostname.MatchString(spec.Hostname) {
		p.Hostname = spec.Hostname
	}
	// Programs inside listen at any port, as do the gateway of a filtered network and exposed ports. A
	// kubelet allows this sysctl unasked.
	p.SecurityContext = &corev1.PodSecurityContext{
		Sysctls: []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}},
	}
	if c.RuntimeClass != "" {
		p.RuntimeClassName = &c.RuntimeClass
	}
	guest := path.Dir(launch.GuestPath)
	// A kubelet starts containers in their order, each after the hook of the one before. It would see
	// the end of an init container up to a second late.
	install := &corev1.ExecAction{Command: []string{guestImagePath, "install", launch.GuestPath}}
	p.Containers = []corev1.Container{{
		Name: "guest", Image: c.Guest, SecurityContext: confined(installer, installer),
		Command:      []string{guestImagePath, "stay"},
		Lifecycle:    &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: install}},
		VolumeMounts: []corev1.VolumeMount{{Name: "guest", MountPath: guest}},
	}}
	p.Volumes = []corev1.Volume{emptyDir("guest", "")}
	main := corev1.Container{
		Name: container, Image: spec.Config.Image, SecurityContext: confined(spec.UID, spec.GID), WorkingDir: "/",
		VolumeMounts: []corev1.VolumeMount{{Name: "guest", MountPath: guest, ReadOnly: true}},
		Resources:    limits(&spec.Config.Resources),
		// What PID 1 says before it runs anything is why it has not started.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		Command: spec.Command("", "--filter", base64.StdEncoding.EncodeToString(spec.Seccomp), "--pod", string(spec.Network),
			"--listen", spec.Tag, "--alone", strconv.Itoa(int(alone/time.Second))),
		Env: []corev1.EnvVar{{Name: "HOST_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.hostIP"}}}},
	}
	for _, v := range spec.EnvOverImage() {
		name, value, _ := strings.Cut(v, "=")
		main.Env = append(main.Env, corev1.EnvVar{Name: name, Value: value})
	}
	for i, m := range spec.Mounts() {
		if m.Kind != launch.Tmpfs {
			continue
		}
		name, medium := "dir"+strconv.Itoa(i), corev1.StorageMediumDefault
		if m.Target == launch.SessionsPath {
			medium = corev1.StorageMediumMemory
		}
		p.Volumes = append(p.Volumes, emptyDir(name, medium))
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: m.Target})
	}
	p.Containers = append(p.Containers, main)
	return p
}

func emptyDir(name string, medium corev1.StorageMedium) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}}
}

// confined is a container of that user without any right.
func confined(uid, gid int) *corev1.SecurityContext {
	return &corev1.SecurityContext{
		RunAsUser: pointer(int64(uid)), RunAsGroup: pointer(int64(gid)), RunAsNonRoot: pointer(true),
		AllowPrivilegeEscalation: new(bool), Privileged: new(bool), ReadOnlyRootFilesystem: pointer(true),
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// limits returns the limits of the container, which are its requests too.
func limits(r *runtime.Resources) (all corev1.ResourceRequirements) {
	list := corev1.ResourceList{}
	if r.Memory > 0 {
		list[corev1.ResourceMemory] = *resource.NewQuantity(r.Memory, resource.BinarySI)
	}
	if r.CPUs > 0 {
		list[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(r.CPUs*1000), resource.DecimalSI)
	}
	if len(list) > 0 {
		all.Limits, all.Requests = list, list
	}
	return all
}

func pointer[T any](v T) *T { return &v }
