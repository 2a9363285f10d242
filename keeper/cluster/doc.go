// Package cluster is the keeper's client of a Kubernetes cluster that serves agents.x-k8s.io
// (kubernetes-sigs/agent-sandbox). [object] decides what it requests; it changes only objects that
// have the sandbox's labels and annotations.
//
// A sandbox is a Sandbox of that API, whose pod has wolffia-guest as PID 1, without a stream: the
// connection to PID 1 is an execution of wolffia-guest connect in it (see [wolffia/guest.Connect]).
// Never an attach: that logs all frames on the node, and PID 1 could not tell the end of a host from
// a frame that broke off. The bytes of the connection pass through this process, which looks at none.
package cluster
