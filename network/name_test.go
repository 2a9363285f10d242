package network_test

import (
	"strings"
	"testing"

	"wolffia/network"
)

func TestNormalName(t *testing.T) {
	for _, row := range []struct{ name, want string }{
		{"a.example", "a.example"},
		{"A.Example", "a.example"},
		{"a.example.", "a.example"},
		{"single", "single"},
		{"_dmarc.a_b.example", "_dmarc.a_b.example"},
		{"r3---sn-x.example", "r3---sn-x.example"},
		{"bücher.example", "xn--bcher-kva.example"},
		{"BÜCHER.example", "xn--bcher-kva.example"},
		{"XN--BCHER-KVA.example", "xn--bcher-kva.example"},
		{"faß.example", "xn--fa-hia.example"}, // not transitional
		{"a。example", "a.example"},            // ideographic full stop
		{"a.example。", "a.example"},
		{"ａ.example", "a.example"}, // full width
		{"1.2.3.4.example", "1.2.3.4.example"},
		{"0xdead.beef", "0xdead.beef"},
		{strings.Repeat("a.", 126) + "b", strings.Repeat("a.", 126) + "b"},
	} {
		got, err := network.NormalName(row.name)
		if err != nil || got != row.want {
			t.Errorf("%q: %q, %v; want %q", row.name, got, err, row.want)
		}
	}
	for _, name := range []string{
		"", ".", "..", "a..b", ".a", "a.example..", "-a", "a-", "a b", "a\x00b", "a\nb", "a/b", "a:80", "a@b", "*", "*.a",
		"127.0.0.1", "127.1", "2130706433", "0177.0.0.1", "0x7f.1", "0x7f000001", "a.0x7f", "a.0x", "1", "a.1", "127.0.0.1.",
		"::1", "[::1]", "::ffff:1.2.3.4", "fe80::1%lo", "１２７.0.0.1", "①②⑦.0.0.1",
		"xn--a", "xn--0.example", "a\u200db.example", strings.Repeat("a", 64), strings.Repeat("a.", 127) + "b", strings.Repeat("ü", 64),
		"\xff.example", strings.Repeat("a", 100000),
	} {
		if got, err := network.NormalName(name); err == nil {
			t.Errorf("%.100q is a name: %q", name, got)
		}
	}
}

// FuzzNormalName: the normal form is its own normal form, and one of a bounded set of bytes.
func FuzzNormalName(f *testing.F) {
	for _, name := range []string{"a.example", "bücher.example.", "xn--bcher-kva", "127.0.0.1", "０x7f.1", "a。b"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		normal, err := network.NormalName(name)
		if err != nil {
			return
		}
		again, err := network.NormalName(normal)
		if err != nil || again != normal {
			t.Errorf("%q, normal %q, again %q: %v", name, normal, again, err)
		}
		if rest := strings.Trim(normal, "abcdefghijklmnopqrstuvwxyz0123456789-_."); len(normal) > 253 || rest != "" {
			t.Errorf("%q: normal %q", name, normal)
		}
	})
}

// FuzzCompile: what compiles allows what its text says at most.
func FuzzCompile(f *testing.F) {
	f.Add("a.example:80,443", "b.example")
	f.Add("*.example:1-9", "b.example")
	f.Fuzz(func(t *testing.T, entry, name string) {
		c, err := (&network.Policy{Allow: []string{entry}}).Compile()
		if err != nil || strings.HasPrefix(entry, "@") {
			return
		}
		normal, err := network.NormalName(name)
		if err != nil || !c.Known(normal) {
			return
		}
		host, _, _ := strings.Cut(entry, ":")
		domain, wild := strings.CutPrefix(host, "*.")
		want, err := network.NormalName(domain)
		if err != nil || wild && !strings.HasSuffix(normal, "."+want) || !wild && normal != want {
			t.Errorf("rule %q has %q", entry, name)
		}
	})
}
