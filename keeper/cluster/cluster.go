package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"wolffia/internal/host/boot"
	"wolffia/internal/sys/cleanup"
	"wolffia/keeper/mark"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

const (
	// answerLimit is how long the API server may take to answer one request.
	answerLimit = 15 * time.Second
	// startLimit is how long a pod may take to run: a node may have to be added, an image pulled.
	startLimit = 10 * time.Minute
)

// A Cluster manages one sandbox in a cluster. It is safe for concurrent use.
type Cluster struct {
	config    *rest.Config
	client    dynamic.Interface
	namespace string
	place     place
	id        string // empty: all sandboxes of the place
	sandbox   *runtime.SandboxConfig
	bound     atomic.Bool // the sandbox ends with its caller, for good

	pod   types.UID          // of the one that PID 1 runs in
	stop  context.CancelFunc // ends the connection to PID 1; nil: there is none
	again chan *os.File

	deadlines chan time.Time // the last one that Renew was called with
}

// Open returns a Cluster for a sandbox of the state directory; with an empty id, for all of them. It
// does not connect.
func Open(stateDir, id string, config *runtime.SandboxConfig) (*Cluster, error) {
	k := config.Kubernetes
	if k == nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "sandbox %s: the configuration has no cluster", id)
	}
	c := &Cluster{
		place: here(stateDir), id: id, sandbox: config, again: make(chan *os.File), deadlines: make(chan time.Time, 1),
	}
	c.bound.Store(config.BoundToCaller)
	var err error
	if k.Config == "" {
		c.config, err = rest.InClusterConfig()
		c.namespace = cmp.Or(k.Namespace, podNamespace(), "default")
	} else {
		loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			&clientcmd.ClientConfigLoadingRules{ExplicitPath: k.Config}, &clientcmd.ConfigOverrides{CurrentContext: k.Context})
		if c.config, err = loaded.ClientConfig(); err == nil {
			c.namespace, _, err = loaded.Namespace()
			c.namespace = cmp.Or(k.Namespace, c.namespace)
		}
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the cluster's configuration %s: %w", cmp.Or(k.Config, "of this pod"), err)
	}
	c.config.UserAgent = "wolffia"
	c.config.WarningHandler = rest.NoWarnings{}
	if c.client, err = dynamic.NewForConfig(c.config); err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "the cluster at %s: %w", c.config.Host, err)
	}
	return c, nil
}

// podNamespace returns the namespace of the pod that this process runs in; empty: it does not.
func podNamespace() string {
	b, _ := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	return string(b)
}

func (c *Cluster) sandboxes() dynamic.ResourceInterface {
	return c.client.Resource(sandboxes).Namespace(c.namespace)
}

func (c *Cluster) pods() dynamic.ResourceInterface {
	return c.client.Resource(pods).Namespace(c.namespace)
}

// Start implements [wolffia/keeper.Engine].
func (c *Cluster) Start(ctx context.Context, spec *launch.Spec, step func(string)) (_ *os.File, _ <-chan error, err error) {
	step("ask the cluster at " + c.config.Host)
	want, err := object(spec, c.place)
	if err != nil {
		return nil, nil, err
	}
	there, runs, err := c.runs(ctx, want)
	switch {
	case err == nil && !runs:
		err = c.create(ctx, spec, want, there, step)
	case err == nil:
		err = c.update(ctx, func(o *unstructured.Unstructured) error { return setDeadline(o, spec.Deadline) })
	}
	if err != nil {
		return nil, nil, err
	}
	step("connect to the pod")
	var undo cleanup.Stack
	defer undo.Unwind(&err)
	connected, stop := context.WithCancel(context.Background())
	undo.Add(func() error { stop(); return nil })
	first, err := c.connect(connected, spec.Tag)
	if err != nil {
		return nil, nil, err
	}
	undo.Release()
	c.stop = stop
	gone := make(chan error, 1)
	go func() { gone <- c.hold(connected, spec.Tag, first) }() // ends with the pod, or with connected
	go c.renew(connected)                                      // ends with connected
	return first.file, gone, nil
}

// runs reports whether the sandbox's object of a start before is there, and whether its pod runs and is
// what is wanted: its keeper was killed. PID 1 waits for another one, with the sessions and files.
func (c *Cluster) runs(ctx context.Context, want *unstructured.Unstructured) (there, runs bool, err error) {
	old, ours, err := c.find(ctx)
	if err != nil || !ours || old.GetAnnotations()[noteSpec] != want.GetAnnotations()[noteSpec] {
		return ours, false, err
	}
	if n, _, err := unstructured.NestedInt64(old.Object, "spec", "replicas"); err != nil || n != 1 {
		return true, false, nil // it was stopped
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	pod, err := c.pods().Get(ctx, objectName(c.id), metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		return true, false, nil
	}
	if err != nil {
		return true, false, c.explain("look for the pod", err)
	}
	c.pod = pod.GetUID()
	return true, pod.GetDeletionTimestamp() == nil && (event{object: pod}).state().runs, nil
}

// create creates the Sandbox, and waits until PID 1 runs. there says that it exists, of a start before.
func (c *Cluster) create(
	ctx context.Context, spec *launch.Spec, want *unstructured.Unstructured, there bool, step func(string),
) error {
	if there {
		if _, err := c.End(ctx, false, false); err != nil {
			return err
		}
	}
	if err := mark.Set(spec.Dir, mark.InMaking); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	step("create the Sandbox " + c.namespace + "/" + want.GetName())
	if err := c.put(ctx, want); err != nil {
		return err
	}
	if err := mark.Set(spec.Dir, ""); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	return c.awaitRunning(ctx, step)
}

// put creates the Sandbox, or has one that was stopped start with another template. Its controller
// may write to it in between: then put looks at it again.
func (c *Cluster) put(ctx context.Context, want *unstructured.Unstructured) error {
	err := c.putOnce(ctx, want)
	for tries := 0; kerrors.IsConflict(err) && tries < 10; tries++ {
		err = c.putOnce(ctx, want)
	}
	return err
}

func (c *Cluster) putOnce(ctx context.Context, want *unstructured.Unstructured) error {
	old, ours, err := c.find(ctx)
	switch {
	case err != nil:
		return err
	case old != nil && !ours:
		return runtime.Errorf(runtime.ErrConflict, "Sandbox %s/%s in the cluster at %s was not created from this state directory, and is left alone: delete it with kubectl", c.namespace, want.GetName(), c.config.Host)
	case old != nil:
		want.SetResourceVersion(old.GetResourceVersion())
		_, err = c.sandboxes().Update(ctx, want, metav1.UpdateOptions{})
	default:
		// Not cancelled with ctx: an answer says whether there is one.
		whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
		defer cancel()
		_, err = c.sandboxes().Create(whole, want, metav1.CreateOptions{})
	}
	return c.explain("create the Sandbox", err)
}

// update changes the Sandbox, if there is one. Others may change it meanwhile.
func (c *Cluster) update(ctx context.Context, change func(*unstructured.Unstructured) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	for {
		o, ours, err := c.find(ctx)
		if err != nil || !ours {
			return err
		}
		if err := change(o); err != nil {
			return err
		}
		_, err = c.sandboxes().Update(ctx, o, metav1.UpdateOptions{})
		if kerrors.IsNotFound(err) {
			return nil
		}
		if !kerrors.IsConflict(err) {
			return c.explain("update the Sandbox", err)
		}
	}
}

// Claim implements [wolffia/keeper.Remote]. The pod's own labels stay: it is the Sandbox that tells whose
// it is.
func (c *Cluster) Claim(ctx context.Context, config *runtime.SandboxConfig, createdAt int64) error {
	err := c.update(ctx, func(o *unstructured.Unstructured) error {
		o.SetLabels(over(o.GetLabels(), labels(c.id, config.Labels, c.place)))
		o.SetAnnotations(over(o.GetAnnotations(), annotations(config, createdAt, c.place)))
		return nil
	})
	if err == nil {
		c.bound.Store(config.BoundToCaller)
	}
	return err
}

// over returns what others have set of an object, and over it what is ours.
func over(theirs, ours map[string]string) map[string]string {
	all := maps.Clone(theirs)
	maps.Copy(all, ours)
	return all
}

// Renew implements [wolffia/keeper.Remote].
func (c *Cluster) Renew(deadline time.Time) {
	select {
	case <-c.deadlines:
	default:
	}
	c.deadlines <- deadline
}

// renew tells the cluster deadlines until ctx ends, each until it takes it.
func (c *Cluster) renew(ctx context.Context) {
	var at time.Time
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case at = <-c.deadlines:
		case <-again:
		}
		again = nil
		if err := c.update(ctx, func(o *unstructured.Unstructured) error { return setDeadline(o, at) }); err != nil {
			fmt.Fprintln(os.Stderr, "the sandbox's deadline:", err)
			again = time.After(longestPause)
		}
	}
}

// find returns the Sandbox with the name of the sandbox's, or nil, and whether it is the sandbox's.
// If not, it must not be changed.
func (c *Cluster) find(ctx context.Context) (o *unstructured.Unstructured, ours bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	o, err = c.sandboxes().Get(ctx, objectName(c.id), metav1.GetOptions{})
	if kerrors.IsNotFound(err) && !unserved(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, c.explain("look for the Sandbox", err)
	}
	id, ours := c.place.has(o)
	return o, ours && id == c.id, nil
}

// unserved reports whether the API server does not know the kind of object: its answer is not in the
// form of the API.
func unserved(err error) bool {
	return kerrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// awaitRunning waits until PID 1 runs, and returns why it never will.
func (c *Cluster) awaitRunning(ctx context.Context, step func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	last := ""
	for event := range c.follow(ctx, c.sandboxes(), c.pods()) {
		s := event.state()
		switch {
		case event.err != nil:
			return event.err
		case s.err != "":
			return runtime.Errorf(runtime.ErrUnavailable, "the cluster did not start the sandbox: %s", s.err)
		case s.runs:
			c.pod = event.object.GetUID()
			return nil
		case s.waits != "" && s.waits != last:
			last = s.waits
			step("wait for the pod: " + last)
		}
	}
	return runtime.Errorf(runtime.ErrUnavailable, "the pod does not run: %s", cmp.Or(last, ctx.Err().Error()))
}

// End implements [wolffia/keeper.Engine].
func (c *Cluster) End(ctx context.Context, forGood, _ bool) (kept string, err error) {
	if c.stop != nil {
		c.stop()
	}
	o, ours, err := c.find(ctx)
	if err != nil || !ours {
		return "", err
	}
	if forGood || c.bound.Load() {
		background := metav1.DeletePropagationBackground
		err = c.sandboxes().Delete(ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		if kerrors.IsNotFound(err) {
			err = nil
		}
		err = c.explain("delete the Sandbox", err)
	} else {
		kept = o.GetName()
		err = c.update(ctx, func(o *unstructured.Unstructured) error {
			return unstructured.SetNestedField(o.Object, int64(0), "spec", "replicas")
		})
	}
	if err != nil {
		return "", err
	}
	return kept, c.removePod(ctx)
}

// removePod has the cluster end the pod at once, and waits until it is gone: PID 1 drops signals, so
// the time to end by itself would pass.
func (c *Cluster) removePod(ctx context.Context) error {
	err := c.pods().Delete(ctx, objectName(c.id), metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	if err != nil && !kerrors.IsNotFound(err) {
		return c.explain("delete the pod", err)
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	for event := range c.follow(watching, c.pods()) {
		if event.err != nil {
			return event.err
		}
		if event.object == nil {
			return nil
		}
	}
	return runtime.Errorf(runtime.ErrUnavailable, "the cluster at %s does not remove pod %s/%s: look at its node", c.config.Host, c.namespace, objectName(c.id))
}

// Freeze implements [wolffia/keeper.Engine].
func (c *Cluster) Freeze(context.Context, bool) error {
	return runtime.Errorf(runtime.ErrUnsupported, "a pod cannot be paused: use wolffia stop")
}

// Scan implements [wolffia/keeper.Engine]. It asks for what it reads only, labels and annotations, and
// has the API server answer from its memory: some of them read all Sandboxes of the namespace from etcd
// else, 16 seconds for 10,000.
func (c *Cluster) Scan(ctx context.Context) ([]boot.Found, error) {
	client, err := metadata.NewForConfig(c.config)
	if err != nil {
		return nil, c.explain("list the Sandboxes", err)
	}
	list, err := client.Resource(sandboxes).Namespace(c.namespace).List(ctx,
		metav1.ListOptions{LabelSelector: labelPlace + "=" + c.place.hash(), ResourceVersion: "0"})
	if err != nil {
		return nil, c.explain("list the Sandboxes", err)
	}
	var all []boot.Found
	for i := range list.Items {
		if f, ok := found(&list.Items[i], c.place); ok {
			all = append(all, f)
		}
	}
	return all, nil
}

// Image implements [wolffia/keeper.Engine]. It has no digest: the nodes get the image, by its name.
func (c *Cluster) Image(context.Context, func(string)) (*boot.ImageInfo, error) {
	return &boot.ImageInfo{ID: c.sandbox.ImageID}, nil
}

// explain returns an error for a request that has failed, in the API server's own words; nil if err is nil.
func (c *Cluster) explain(what string, err error) error {
	host := c.config.Host
	var status kerrors.APIStatus
	switch {
	case err == nil:
		return nil
	case kerrors.IsUnauthorized(err):
		return runtime.Errorf(runtime.ErrUnavailable, "the cluster at %s does not accept the credentials of %s, which may have expired: %w", host, cmp.Or(c.sandbox.Kubernetes.Config, "this pod"), err)
	case kerrors.IsNotFound(err) && unserved(err):
		return runtime.Errorf(runtime.ErrUnavailable, "the cluster at %s does not serve agents.x-k8s.io: install agent-sandbox (kubectl apply -f https://github.com/kubernetes-sigs/agent-sandbox/releases/latest/download/manifest.yaml)", host)
	case kerrors.IsForbidden(err), kerrors.IsInvalid(err), kerrors.IsBadRequest(err):
		return runtime.Errorf(runtime.ErrUnavailable, "%s: the cluster at %s refuses it: %w", what, host, err)
	case errors.Is(err, context.DeadlineExceeded):
		return runtime.Errorf(runtime.ErrUnavailable, "%s: the cluster at %s does not answer", what, host)
	case errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError:
		return runtime.Errorf(runtime.ErrUnavailable, "%s: the cluster at %s failed: %w", what, host, err)
	}
	return runtime.Errorf(runtime.ErrUnavailable, "cluster at %s: %s: %w", host, what, err)
}
