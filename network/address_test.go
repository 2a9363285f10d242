package network_test

import (
	"net/netip"
	"testing"

	"wolffia/network"
)

func TestForbidden(t *testing.T) {
	for addr, want := range map[string]string{
		"8.8.8.8": "", "1.1.1.1": "", "93.184.216.34": "", "100.63.255.255": "", "100.128.0.0": "", "172.15.255.255": "", "172.32.0.0": "",
		"2606:4700::1111": "", "2a00:1450::1": "", "::ffff:8.8.8.8": "", "64:ff9b::808:808": "", "2002:808:808::1": "",
		"0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "::": "unspecified",
		"127.0.0.1": "loopback", "127.64.1.5": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback", "64:ff9b::7f00:1": "loopback", "2002:7f00:1::": "loopback",
		"10.0.0.5": "private", "172.16.0.1": "private", "172.31.255.255": "private", "192.168.1.1": "private", "fd12::1": "private", "fec0::1": "private",
		"::ffff:10.0.0.5": "private", "64:ff9b::a00:5": "private", "2002:c0a8:101::1": "private",
		"100.64.0.1": "carrier-private", "100.127.255.255": "carrier-private",
		"169.254.1.1": "link-local", "fe80::1": "link-local", "169.254.169.254": "metadata", "fd00:ec2::254": "metadata", "::ffff:169.254.169.254": "metadata",
		"64:ff9b::a9fe:a9fe": "metadata", "100.100.100.200": "metadata", "168.63.129.16": "metadata",
		"224.0.0.1": "multicast", "ff02::1": "multicast", "255.255.255.255": "broadcast", "240.0.0.1": "reserved",
		"192.0.2.1": "documentation", "198.51.100.1": "documentation", "203.0.113.1": "documentation", "2001:db8::1": "documentation", "3fff::1": "documentation",
		"198.18.0.1": "benchmark", "198.19.255.255": "benchmark", "192.0.0.8": "special", "2001::1": "special", "2001:2::1": "special",
		"::7f00:1": "special", "::127.0.0.1": "special", "64:ff9b:1::7f00:1": "special", "100::1": "special", "5f00::1": "special", "4000::1": "special",
		"2606:4700::1%eth0": "special",
	} {
		if got := network.Forbidden(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s is %q, want %q", addr, got, want)
		}
	}
	if network.Forbidden(netip.Addr{}) == "" {
		t.Error("the zero address is public")
	}
}

func TestForbiddenHost(t *testing.T) {
	for host, want := range map[string]string{
		"localhost": "loopback", "localhost:5000": "loopback", "LocalHost.": "loopback", "x.localhost:80": "loopback",
		"127.0.0.1": "loopback", "127.0.0.1:5000": "loopback", "[::1]:5000": "loopback", "[::1]": "loopback", "::1": "loopback",
		"[::ffff:127.0.0.1]:80": "loopback", "0.0.0.0:80": "unspecified", "10.0.0.1:5000": "private", "169.254.169.254": "metadata", "[fe80::1%eth0]:80": "special",
		"8.8.8.8:443": "", "[2606:4700::1111]:443": "", "registry.example:5000": "", "localhost.example": "", "": "",
	} {
		if got := network.ForbiddenHost(host); got != want {
			t.Errorf("%s is %q, want %q", host, got, want)
		}
	}
}
