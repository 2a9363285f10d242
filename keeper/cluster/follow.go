package cluster

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8s "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// Pauses before the next watch, when the API server has ended one, or does not answer.
const (
	shortestPause = 50 * time.Millisecond
	longestPause  = 5 * time.Second
)

// An event is what an object of the sandbox is now.
type event struct {
	object *unstructured.Unstructured // nil: it does not exist
	err    error                      // there are no more events
}

// state reads what the object says.
func (e event) state() state {
	if e.object == nil || e.object.GetKind() != "Pod" {
		if e.object == nil {
			return state{}
		}
		return sandboxState(e.object)
	}
	pod := new(corev1.Pod)
	if err := k8s.DefaultUnstructuredConverter.FromUnstructured(e.object.Object, pod); err != nil {
		return state{err: "the API server's pod: " + err.Error()}
	}
	return podState(pod)
}

// follow sends what the objects with the name of the sandbox's are now, and each change, until ctx
// ends; then it closes the channel. An API server ends a watch at any time, and may be restarted.
func (c *Cluster) follow(ctx context.Context, kinds ...dynamic.ResourceInterface) <-chan event {
	events := make(chan event)
	var all sync.WaitGroup
	for _, kind := range kinds {
		all.Go(func() { c.followOne(ctx, kind, events) })
	}
	go func() { // ends with ctx
		all.Wait()
		close(events)
	}()
	return events
}

func (c *Cluster) followOne(ctx context.Context, kind dynamic.ResourceInterface, events chan<- event) {
	send := func(e event) {
		select {
		case events <- e:
		case <-ctx.Done():
		}
	}
	for pause := shortestPause; ctx.Err() == nil; pause = min(2*pause, longestPause) {
		version, err := c.now(ctx, kind, send)
		if err == nil {
			var w watch.Interface
			w, err = kind.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + objectName(c.id), ResourceVersion: version})
			if err == nil {
				pause = shortestPause
				for e := range w.ResultChan() {
					o, is := e.Object.(*unstructured.Unstructured)
					switch {
					case e.Type == watch.Deleted:
						send(event{})
					case is && e.Type != watch.Error:
						send(event{object: o})
					}
				}
				w.Stop()
			}
		}
		if kerrors.IsForbidden(err) || kerrors.IsUnauthorized(err) || kerrors.IsNotFound(err) {
			send(event{err: c.explain("watch the sandbox", err)})
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// now sends what the object is, and returns the version from which on to watch.
func (c *Cluster) now(ctx context.Context, kind dynamic.ResourceInterface, send func(event)) (version string, err error) {
	list, err := kind.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + objectName(c.id)})
	if err != nil {
		return "", err
	}
	if len(list.Items) == 0 {
		send(event{})
	} else {
		send(event{object: &list.Items[0]})
	}
	return list.GetResourceVersion(), nil
}
