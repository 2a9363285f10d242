// Package server serves a [service.Service] over HTTP, on a unix socket.
//
//	client ── unix socket ── Listener ── http.Server ── one function for each call ── Service
//	           0600          own uid, root              JSON in, JSON out
//
// A call is a POST of one JSON object, which names the owner, to /api/v1/NAME, and the
// reply is one JSON object; docs/service.md is the contract. The server trusts a client
// to name the owner it acts for: a process of the same user could do all that the
// service does. It checks that the client is that user or root, and bounds the size and
// the duration of requests.
package server
