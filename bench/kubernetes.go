package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"

	"wolffia/local"
	"wolffia/runtime"
	"wolffia/runtime/kubernetes"
)

var errNoCluster = errors.New("there is no cluster: scripts/kube run scripts/bench kubernetes, as root; for the pool with setpriv before scripts/bench")

// kubernetes compares sandboxes in a cluster with what a client of the cluster does, turn by turn:
// it creates a Sandbox, waits until that is ready, and executes a command in it, as kubectl exec does.
func (b *bench) kubernetes() error {
	image := os.Getenv("WOLFFIA_TEST_KUBE")
	if image == "" {
		b.notMeasured("kubernetes", errNoCluster)
		return nil
	}
	rt, err := local.New(&local.Options{StateDir: b.state, Binary: b.wolffia}, kubernetes.Backend())
	if err != nil {
		return err
	}
	defer rt.Close()
	with := *b
	with.rt = rt
	config := &runtime.SandboxConfig{Image: image, Network: runtime.NetworkNone}
	peer, err := newClusterPeer(image)
	if err != nil {
		return err
	}
	for _, part := range []func() error{
		func() error { return with.clusterStart(config, peer) },
		func() error { return with.clusterPool(config) },
		func() error { return with.clusterExec(config, peer) },
	} {
		if err := part(); err != nil {
			return err
		}
		_ = b.table.Flush()
	}
	return nil
}

// clusterTurns is how many sandboxes are measured.
const clusterTurns = 15

// clusterStart compares the time to the first command.
func (b *bench) clusterStart(config *runtime.SandboxConfig, peer *clusterPeer) error {
	var ours, ready, theirs times
	for range clusterTurns {
		if err := b.clusterTurn(config, &ours); err != nil {
			return err
		}
		begin := time.Now()
		err := peer.create(b.ctx)
		ready = append(ready, time.Since(begin))
		if err == nil {
			err = peer.exec(b.ctx, io.Discard, "true")
		}
		theirs = append(theirs, time.Since(begin))
		if err = errors.Join(err, peer.remove(b.ctx)); err != nil {
			return err
		}
	}
	b.row("kubernetes: create to first command", ours, "p50 1.3 times a Sandbox's Ready")
	b.row("  a Sandbox, Ready", ready, "")
	b.row("  a Sandbox, and exec true", theirs, "")
	return nil
}

// clusterFirst creates a sandbox, and runs a first command in it.
func (b *bench) clusterFirst(config *runtime.SandboxConfig) (string, error) {
	s, err := runtime.Launch(b.ctx, b.rt, config)
	if err != nil {
		return "", err
	}
	return s.ID(), b.execIn(s.ID(), "true")
}

// clusterTurn adds the time of clusterFirst to ours, and destroys the sandbox.
func (b *bench) clusterTurn(config *runtime.SandboxConfig, ours *times) error {
	begin := time.Now()
	id, err := b.clusterFirst(config)
	if err != nil {
		return err
	}
	*ours = append(*ours, time.Since(begin))
	return b.rt.Destroy(b.ctx, id)
}

// clusterPool is clusterStart with pods that run already.
func (b *bench) clusterPool(config *runtime.SandboxConfig) error {
	if os.Geteuid() == 0 {
		b.notMeasured("kubernetes: from the pool", errNotRoot)
		return nil
	}
	pool, err := b.rt.StartPool(b.ctx, config, local.PoolOptions{Size: 2})
	if err != nil {
		return err
	}
	defer func() { _ = b.rt.StopPool(b.ctx, pool.Shape) }()
	var ours times
	for range clusterTurns {
		if err := b.refilled(pool.Shape); err != nil {
			return err
		}
		if err := b.clusterTurn(config, &ours); err != nil {
			return err
		}
	}
	b.row("kubernetes: from the pool, create to first command", ours, "p50 500 ms")
	return nil
}

// clusterExec compares commands, and 10 MB of output.
func (b *bench) clusterExec(config *runtime.SandboxConfig, peer *clusterPeer) error {
	id, err := b.clusterFirst(config)
	if err != nil {
		return err
	}
	defer func() { _ = b.rt.Destroy(b.ctx, id) }()
	if err := peer.create(b.ctx); err != nil {
		return err
	}
	defer func() { _ = peer.remove(b.ctx) }()
	if _, err := b.rt.CreateSession(b.ctx, id, &runtime.SessionConfig{Name: "s"}); err != nil {
		return err
	}
	const output = "head -c 10000000 /dev/zero"
	for _, row := range []struct {
		name, bar string
		turns     int
		f         func() error
	}{
		{"kubernetes: exec true", "p50 5 ms", 200, func() error { return b.execIn(id, "true") }},
		{"  by the cluster's exec", "", 20, func() error { return peer.exec(b.ctx, io.Discard, "true") }},
		{"kubernetes: a session's builtin", "p50 3 ms", 200, func() error {
			_, err := b.rt.Exec(b.ctx, id, &runtime.ExecRequest{Command: []string{":"}, Session: "s"})
			return err
		}},
		{"kubernetes: 10 MB of output", "", 10, func() error {
			p, err := b.rt.StartProcess(b.ctx, id, &runtime.Command{Command: []string{"sh", "-c", output}})
			if err != nil {
				return err
			}
			defer p.Close()
			return whole(io.Copy(io.Discard, p.Stdout()))
		}},
		{"  by the cluster's exec", "", 10, func() error {
			n := new(counted)
			return errors.Join(peer.exec(b.ctx, n, "sh", "-c", output), whole(int64(*n), nil))
		}},
	} {
		var all times
		for range row.turns {
			begin := time.Now()
			if err := row.f(); err != nil {
				return fmt.Errorf("%s: %w", row.name, err)
			}
			all = append(all, time.Since(begin))
		}
		b.row(row.name, all, row.bar)
	}
	return nil
}

// whole returns an error unless all of 10 MB was read.
func whole(n int64, err error) error {
	if err == nil && n != 10000000 {
		err = fmt.Errorf("%d bytes of output", n)
	}
	return err
}

type counted int64

func (c *counted) Write(b []byte) (int, error) {
	*c += counted(len(b))
	return len(b), nil
}

// A clusterPeer is a client of a cluster without wolffia. It has one Sandbox at a time.
type clusterPeer struct {
	config    *rest.Config
	client    dynamic.Interface
	namespace string
	image     string
}

const clusterPeerName = "bench-peer"

var clusterSandboxes = schema.GroupVersionResource{Group: "agents.x-k8s.io", Version: "v1alpha1", Resource: "sandboxes"}

func newClusterPeer(image string) (*clusterPeer, error) {
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil)
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	return &clusterPeer{config, client, namespace, image}, err
}

// create creates the Sandbox, and returns when it is ready.
func (p *clusterPeer) create(ctx context.Context) error {
	all := p.client.Resource(clusterSandboxes).Namespace(p.namespace)
	_, err := all.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "agents.x-k8s.io/v1alpha1", "kind": "Sandbox", "metadata": map[string]any{"name": clusterPeerName},
		"spec": map[string]any{"podTemplate": map[string]any{"spec": map[string]any{
			"terminationGracePeriodSeconds": int64(0), "automountServiceAccountToken": false,
			"containers": []any{map[string]any{"name": "c", "image": p.image, "command": []any{"sleep", "3600"}}},
		}}},
	}}, metav1.CreateOptions{})
	for end := time.Now().Add(time.Minute); err == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("the Sandbox of the cluster's client is not ready")
		}
		var o *unstructured.Unstructured
		if o, err = all.Get(ctx, clusterPeerName, metav1.GetOptions{}); err == nil {
			conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
			for _, c := range conditions {
				if c, is := c.(map[string]any); is && c["type"] == "Ready" && c["status"] == "True" {
					return nil
				}
			}
		}
	}
	return err
}

// exec runs a command in the Sandbox.
func (p *clusterPeer) exec(ctx context.Context, out io.Writer, command ...string) error {
	at := p.config.Host + "/api/v1/namespaces/" + p.namespace + "/pods/" + clusterPeerName + "/exec?container=c&stdout=true"
	for _, word := range command {
		at += "&command=" + url.QueryEscape(word)
	}
	executor, err := remotecommand.NewWebSocketExecutor(p.config, "GET", at)
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out})
}

// remove deletes the Sandbox, and returns when its pod is gone.
func (p *clusterPeer) remove(ctx context.Context) error {
	err := p.client.Resource(clusterSandboxes).Namespace(p.namespace).Delete(ctx, clusterPeerName, metav1.DeleteOptions{})
	pods := p.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(p.namespace)
	for end := time.Now().Add(time.Minute); err == nil && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, gone := pods.Get(ctx, clusterPeerName, metav1.GetOptions{}); gone != nil {
			return nil
		}
	}
	return err
}
