// Package reach tries which of the named lists of hosts this host's network reaches.
package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"wolffia/internal/host/probe"
	"wolffia/network"
)

// limit bounds the attempt for one host.
const limit = 4 * time.Second

// atOnce bounds the attempts at once.
const atOnce = 16

// A Network is what Lists tries.
type Network struct {
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	Dial   func(ctx context.Context, address string) error
	// Proxy is the value of HTTPS_PROXY of the caller.
	Proxy string
}

// Host returns this host's network.
func Host(proxy string) *Network {
	return &Network{
		Lookup: func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		},
		Dial: func(ctx context.Context, address string) error {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err != nil {
				return err
			}
			return c.Close()
		},
		Proxy: proxy,
	}
}

// Lists tries all hosts of all lists, and returns a result for each list.
func (n *Network) Lists(ctx context.Context) []probe.Result {
	lists := network.Lists()
	results := make([]probe.Result, len(lists))
	turns := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, l := range lists {
		all.Go(func() {
			problems, private := make([]string, len(l.Hosts)), make([]bool, len(l.Hosts))
			var hosts sync.WaitGroup
			for j, host := range l.Hosts {
				hosts.Go(func() {
					turns <- struct{}{}
					defer func() { <-turns }()
					problems[j], private[j] = n.try(ctx, host)
				})
			}
			hosts.Wait()
			results[i] = n.result(l.Name, problems, private)
		})
	}
	all.Wait()
	return results
}

// result is what the attempts for the hosts of a list mean.
func (n *Network) result(list string, problems []string, private []bool) probe.Result {
	r := probe.Result{Feature: "network", Found: "@" + list, OK: true, Allows: "--allow-host @" + list}
	unreached := false
	for i, problem := range problems {
		if problem == "" {
			continue
		}
		r.OK, unreached = false, unreached || !private[i]
		r.Problem += problem + "\n"
	}
	switch {
	case r.OK:
	case !unreached:
		r.Fix = fmt.Sprintf("--allow-host @%s%s", list, network.PrivateSuffix)
	case n.Proxy != "":
		r.Fix = "in your configuration file: upstream-proxy: " + withoutPassword(n.Proxy)
	default:
		r.Fix = fmt.Sprintf("if there is a mirror, in your configuration file: mirrors: {%s: NAME}, or NAME%s", list, network.PrivateSuffix)
	}
	return r
}

// try returns why a sandbox could not reach a host, NAME:PORTS; empty if it could. private says
// that the reason is a private address.
func (n *Network) try(ctx context.Context, host string) (problem string, private bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	name, ports, _ := strings.Cut(host, ":")
	addrs, err := n.Lookup(ctx, name)
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsTimeout || ctx.Err() != nil:
		return name + ": this host's resolver does not answer in time", false
	case err != nil || len(addrs) == 0:
		return name + ": this host's resolver does not know the name", false
	}
	kind := network.Forbidden(addrs[0])
	for _, addr := range addrs {
		if network.Forbidden(addr) == "" {
			kind = ""
		}
	}
	if kind != "" {
		return fmt.Sprintf("%s leads to a %s address, %s", name, kind, addrs[0]), network.IsPrivate(kind)
	}
	port := ports[strings.LastIndexByte(ports, ',')+1:]
	if err := n.Dial(ctx, net.JoinHostPort(name, port)); err != nil {
		return fmt.Sprintf("%s: port %s does not answer", name, port), false
	}
	return "", false
}

// withoutPassword returns the URL of a proxy without its user.
func withoutPassword(proxy string) string {
	u, err := url.Parse(proxy)
	if err != nil || u.Host == "" {
		return "http://HOST:PORT"
	}
	return "http://" + u.Host
}
