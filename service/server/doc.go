// Package server serves a [sandbox.Service] over HTTP, on a unix socket.
//
//	client ── unix socket ── peerListener ── http.Server ── one function for each call ── Service
//	           0600            own uid, root                JSON in, JSON out
//
// Each call of the service is a POST of one JSON object to /api/v1/NAME, with the
// owner in it, and is answered by one JSON object; docs/service.md is the
// contract. Who may connect is trusted to say on whose behalf it asks: it could
// do all that the service does by itself. So what is checked is that it is the
// user, and that what it sends cannot hold the service up.
package server
