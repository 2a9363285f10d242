// Package gate decides for which [service.Caller] a service answers an HTTP request.
//
//	unix socket        the peer's uid, which the listener checks
//	loopback           the client's uid, which [Listen] checks, or an API key; Host and Origin
//	other addresses    an API key
//
// A web page can make a browser send requests to a loopback address (DNS rebinding):
// such a request has a foreign Host or Origin, and is refused.
package gate
