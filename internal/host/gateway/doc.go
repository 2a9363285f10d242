// Package gateway connects the programs of a sandbox to the hosts that a policy names.
//
// The sandbox has no network but loopback. The gateway listens there ([inside.Network]) and
// connects on the host. A program gets by, whether it knows of proxies or not:
//
//	127.64.0.1:53      DNS, over UDP and TCP: an allowed name gets an address of its own
//	127.64.1.0 ...     those addresses, one for each name, the same for the gateway's life
//	0.0.0.0:PORT       each port of the policy below 1024: connections to those addresses
//	127.64.1.0:PORT... the others, that of DNS and exposed ones, at the address of each name that was looked up
//	127.64.0.1:3128    HTTP proxy: CONNECT, and requests with an absolute URI
//	127.64.0.1:1080    SOCKS5, with names
//
// # What is checked
//
// The policy, when a name is looked up, when a connection is made, and at each HTTP request. What
// a connection says of its destination (see peek.go, web.go): the server name of a TLS ClientHello
// must be the name, the Host header of each HTTP request on port 80 too, and on port 443 there is
// TLS only, whose second ClientHello is checked as the first. The address (see dialer.go): the
// host's resolver is asked once for each connection, each address is checked, and the connection
// goes to a checked address, without a second lookup.
//
// # What is not
//
// What TLS encrypts: a server may serve several names, and its client may ask it for another
// one in the Host header. Whether that reaches another owner's site is up to the server. On
// ports other than 80 and 443: what is not TLS from its first byte on, and a second ClientHello.
// What an allowed host does with the data that it gets; a host of a header that repeats the
// header's value in the body of a response shows it inside. A name below an allowed wildcard
// is resolved by the host, so that the owner of the domain, who runs its name
// servers, receives the name: a program inside can choose names that carry data. Only a
// connection causes a lookup, never a DNS query from inside, and new names of
// that kind are limited to 4 in a second after the first 128.
//
// # Bounds
//
// 1024 connections at once, with those to the outside that requests began and that are not made
// yet; further ones are in the listener's queue until one ends. 10 s for what precedes a
// connection's data, and 32 KiB for a handshake, 64 KiB for headers. 65,536 names below wildcards.
// Events are reported one by one: who gets them bounds what is kept. Data is relayed by splice(2)
// where both ends are TCP sockets, else through one buffer of 32 KiB for each direction: who reads
// slowly slows the sender down.
package gateway
