package opensandbox

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"wolffia/network"
	"wolffia/runtime"
)

func TestAmount(t *testing.T) {
	for text, want := range map[string]float64{
		"1": 1, "500m": 0.5, "1.5": 1.5, "2Gi": 2 << 30, "512Mi": 512 << 20, "1Ki": 1024, "1k": 1000, "1M": 1e6, "1G": 1e9, "1T": 1e12, "1Ti": 1 << 40,
		"": 0, "0": 0, "-1": 0, "1e9": 0, "Inf": 0, "NaN": 0, "1 Gi": 0, "Gi": 0, "1Pi": 0, "1mi": 0, "999999999999999999Ti": 0, "0x10": 0,
	} {
		if got, ok := amount(text); ok != (want > 0) || ok && got != want {
			t.Errorf("%q: got %v, ok %v; want ok == want > 0 and (not ok or got == %v)", text, got, ok, want)
		}
	}
}

func TestCheckMetadata(t *testing.T) {
	for _, k := range []string{"a", "a.b-c_d", "example.com/name", strings.Repeat("k", 63)} {
		if err := checkMetadata(map[string]string{k: "v"}); err != nil {
			t.Errorf("%q: %v", k, err)
		}
	}
	for _, k := range []string{"", "/", "a/", "/a", "a/b/c", "A.example/x", "-a", "a-", "a b", "é", strings.Repeat("k", 64), "opensandbox.io/x", "wolffia.x", "wolffia.x/y"} {
		if checkMetadata(map[string]string{k: "v"}) == nil {
			t.Errorf("%q is taken", k)
		}
	}
	for v, ok := range map[string]bool{"": true, "a_b": true, "a b": false, "a\n": false, strings.Repeat("v", 64): false} {
		if err := checkMetadata(map[string]string{"k": v}); (err == nil) != ok {
			t.Errorf("value %q: %v", v, err)
		}
	}
}

// Whatever is written in whatever pieces, the events have exactly these bytes.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\n\nb"), 1)
	f.Add([]byte("\xff\x00é\r\n"), 3)
	f.Add(bytes.Repeat([]byte("é"), maxLine), 1000)
	f.Fuzz(func(t *testing.T, output []byte, size int) {
		size = max(1, size%100_000)
		l := &lines{kind: "stdout"}
		var events []event
		for rest := output; len(rest) > 0; {
			n := min(size, len(rest))
			events = append(events, l.add(rest[:n])...)
			rest = rest[n:]
		}
		events = append(events, l.end()...)
		var got []byte
		for _, e := range events {
			text := []byte(e.Text)
			if e.Bytes != nil {
				text = e.Bytes
			}
			if len(text) > maxLine || e.Bytes == nil && !utf8.Valid(text) || e.Text == "" {
				t.Fatalf("event of %d bytes: %+.100v", len(text), e)
			}
			got = append(got, text...)
			if e.EOL == nil && string(text) != "\n" {
				got = append(got, '\n')
			}
		}
		if !bytes.Equal(got, output) {
			t.Errorf("%.200q became %.200q", output, got)
		}
	})
}

// What a policy asks of the network: a rule that takes back what another allows is refused.
func TestNetworkPolicy(t *testing.T) {
	allow, deny := func(to string) egressRule { return egressRule{"allow", to} }, func(to string) egressRule { return egressRule{"deny", to} }
	for _, x := range []struct {
		policy *networkPolicy
		want   runtime.Network
		names  []string
		fault  string
	}{
		{nil, "", nil, ""},
		{&networkPolicy{"deny", nil}, runtime.NetworkNone, nil, ""},
		{&networkPolicy{"", []egressRule{deny("a.example"), deny("*.b.example")}}, runtime.NetworkNone, nil, ""},
		{&networkPolicy{"deny", []egressRule{allow("a.example"), deny("b.example"), allow("*.c.example")}}, runtime.NetworkFiltered, []string{"a.example", "*.c.example"}, ""},
		{&networkPolicy{"allow", nil}, "", nil, "defaultAction"},
		{&networkPolicy{"deny", []egressRule{allow("a.example"), deny("A.example.")}}, "", nil, "another rule allows it"},
		{&networkPolicy{"deny", []egressRule{allow("*.example"), deny("a.example")}}, "", nil, "another rule allows it"},
		{&networkPolicy{"deny", []egressRule{allow("a.example"), deny("*.example")}}, "", nil, "another rule allows it"},
		{&networkPolicy{"deny", []egressRule{allow("10.0.0.1")}}, "", nil, "address"},
		{&networkPolicy{"deny", []egressRule{{"log", "a.example"}}}, "", nil, "must be"},
	} {
		got, egress, err := x.policy.reach()
		switch {
		case x.fault != "":
			if err == nil || !strings.Contains(err.Error(), x.fault) {
				t.Errorf("%+v: error %v, want %q", x.policy, err, x.fault)
			}
		case err != nil || got != x.want || egress == nil != (x.names == nil) || egress != nil && !slices.Equal(egress.Allow, x.names):
			t.Errorf("%+v: got %q, egress %+v, err %v; want err == nil and got == %q and egress == nil == x.names == nil and (egress == nil or egress.Allow == %v)",
				x.policy, got, egress, err, x.want, x.names)
		}
	}
}

// Rules replace and take back what is there by the form in which names are compared.
func TestChangedPolicy(t *testing.T) {
	for _, x := range []struct {
		has, want []string
		rule      egressRule
	}{
		{[]string{"API.Example.", "b.example"}, []string{"b.example"}, egressRule{remove, "api.example"}},
		{[]string{"api.example"}, nil, egressRule{"deny", "Api.example."}},
		{[]string{"*.API.example"}, nil, egressRule{remove, "*.api.Example"}},
		{[]string{"API.example:443"}, nil, egressRule{remove, "api.example:443"}},
		{[]string{"API.example"}, []string{"api.example"}, egressRule{"allow", "api.example"}},
		{[]string{"bücher.example"}, nil, egressRule{remove, "xn--bcher-kva.example"}},
		{[]string{"api.example"}, []string{"api.example"}, egressRule{remove, "*.api.example"}},
		{[]string{"api.example"}, []string{"api.example"}, egressRule{remove, "api.example:443"}},
	} {
		got, err := changed(&network.Policy{Allow: x.has}, []egressRule{x.rule})
		if err != nil || !slices.Equal(got, x.want) {
			t.Errorf("%q after %+v: %q, %v; want %q", x.has, x.rule, got, err, x.want)
		}
	}
}
