package fields

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"wolffia/runtime"
)

// Each row is complete, and its columns agree with each other.
func TestTable(t *testing.T) {
	for i := range Table {
		f := &Table[i]
		for _, g := range Table[i+1:] {
			if f.Name != "" && f.Name == g.Name && f.On&g.On != 0 {
				t.Errorf("--%s: two rows for one command", f.Name)
			}
			if f.Name != "" && f.Name == g.Name && (f.Group != g.Group || f.Kind != g.Kind || f.Names != g.Names) {
				t.Errorf("--%s: two groups, kinds, or ways to complete it", f.Name)
			}
			if f.Record != "" && f.Record == g.Record && f.Pool != g.Pool {
				t.Errorf("%s: --%s and --%s mean different things for a pool", f.Record, f.Name, g.Name)
			}
		}
		switch names := f.Order(); {
		case f.On != 0 && (f.Help == "" || f.Group == Rest):
			t.Errorf("--%s has no help, or is in no group", f.Name)
		case f.Name == "" && f.Record == "":
			t.Errorf("row %d is of nothing", i)
		case f.Default != "" && names != nil && !slices.Contains(names, f.Default):
			t.Errorf("--%s: the default %q is not a value", f.Name, f.Default)
		case f.Bound.How == Ranked && names == nil || f.Bound.Normal != "" && !slices.Contains(names, f.Bound.Normal):
			t.Errorf("--%s: %q is not in an order", f.Name, f.Bound.Normal)
		case f.Bound.How != Deny && f.Bound.Because != "" && f.Bound.Refuse == "":
			t.Errorf("--%s: a reason for what is not refused", f.Name)
		case f.On&Run == 0 && f.Bound != Bound{} || f.Once && f.Bound != Bound{}:
			t.Errorf("--%s: a bound, but configuration files cannot have it", f.Name)
		case f.API && f.Record == "":
			t.Errorf("--%s: a request may set it, but it is not a sandbox's", f.Name)
		case (f.Pairs || f.Commas) && f.Kind != List:
			t.Errorf("--%s is not a list", f.Name)
		case f.Hidden&^f.On != 0:
			t.Errorf("--%s is hidden where it does not exist", f.Name)
		}
	}
}

// The commands that make a sandbox for a person have the same fields, but for those of run, and serve has no
// field of its own that only those lack.
func TestSandbox(t *testing.T) {
	for i := range Table {
		f := &Table[i]
		if f.On&sandbox != 0 && f.On&Run == 0 && !f.Once && f.Name != "json" {
			t.Errorf("--%s: run lacks it, and so do configuration files", f.Name)
		}
		if f.On&Run != 0 && (f.On|Run)&Learn == 0 && f.Name != "json" {
			t.Errorf("--%s: network learn lacks it", f.Name)
		}
	}
}

// Each field of a sandbox's record has a row, and each row of a record names a field of it.
func TestRecord(t *testing.T) {
	var want []string
	add := func(prefix string, of reflect.Type) {
		for f := range of.Fields() {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			want = append(want, prefix+key)
		}
	}
	add("", reflect.TypeFor[runtime.SandboxConfig]())
	want = slices.DeleteFunc(want, func(key string) bool { return key == "resources" })
	add("resources.", reflect.TypeFor[runtime.Resources]())
	var got []string
	for _, p := range []Pool{Shape, Claim, Cold} {
		got = append(got, Records(p)...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("the record has\n%v\nthe table\n%v", want, got)
	}
}

func TestValues(t *testing.T) {
	text := "2g"
	v := Values{"memory": &text}
	more := v.With("cow", true).With("rule", []string{"a=read"}).With("memory", "1g")
	if v.Text("memory") != "2g" || v.Truth("cow") || v.List("rule") != nil || v.Number("cpus")+float64(v.Whole("pids")) != 0 {
		t.Errorf(`got v %v; want v.Text("memory") == "2g" and not v.Truth("cow") and v.List("rule") == nil and v.Number("cpus")+float64(v.Whole("pids")) == 0`,
			v)
	}
	if more.Text("memory") != "1g" || !more.Truth("cow") || len(more.List("rule")) != 1 {
		t.Errorf(`With "memory" "1g": got more %v; want more.Text("memory") == "1g" and more.Truth("cow") and len(more.List("rule")) == 1`,
			more)
	}
	for name, use := range map[string]func(){
		"unknown":    func() { v.Text("memry") },
		"other kind": func() { v.Truth("memory") },
		"missing":    func() { Values{}.Text("cow") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			use()
		}()
	}
}

// Of and Find give each command its own row.
func TestFind(t *testing.T) {
	if Find(Run, "codebase") == Find(Serve, "codebase") || Find(Serve, "worktree") != nil || Find(Run, "warm") != nil {
		t.Error("rows of other commands")
	}
	for _, k := range Keys() {
		if k.Once || k.Key == "" || k.Key != k.Name && k.Name != "rule" && k.Name != "mirror" {
			t.Errorf("--%s has the key %q", k.Name, k.Key)
		}
	}
	if f := Requested("rules"); f == nil || f.Name != "rule" {
		t.Errorf("rules: %+v", f)
	}
	if f := Requested("mount"); f != nil {
		t.Error("a request may mount what it wants")
	}
}
