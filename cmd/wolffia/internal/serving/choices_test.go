package serving

import (
	"errors"
	"testing"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/fields"
	"wolffia/runtime"
	"wolffia/service"
)

// What a request sets is set for its sandbox only; rules stay as they are, since they only take away.
func TestChoose(t *testing.T) {
	root := t.TempDir()
	base, may := new(sandboxflags.Sandbox), new(choiceFlags)
	base.Add(&host.Host{Console: new(console.Console)}, new(cobra.Command), fields.Serve)
	may.Values = base.With("allow-runtime", []string{"gvisor"})
	may.codebases = []service.Root{{Path: root, Real: root}}
	set := fields.Values{}.With("codebase", root).With("cow", true).With("runtime", "gvisor").
		With("preset", "read-only").With("rule", []string{"a=none"})
	flags := *base
	if err := may.choose(&flags, &service.Params{Settings: set}); err != nil {
		t.Fatal(err)
	}
	ruled := flags.Text("preset") != "" || flags.List("rule") != nil
	if flags.Text("codebase") != root || !flags.Truth("cow") || flags.Text("runtime") != "gvisor" || ruled {
		t.Errorf(`got flags.Values %v; want flags.Text("codebase") == %v and flags.Truth("cow") and flags.Text("runtime") == "gvisor" and not ruled`,
			flags.Values, root)
	}
	if base.Text("codebase") != "" || base.Truth("cow") || base.Text("runtime") != "" {
		t.Errorf("the service's own: %v", base.Values)
	}
	for _, set := range []fields.Values{
		fields.Values{}.With("codebase", "/etc"), fields.Values{}.With("runtime", "docker"),
		// No list replaces the service's own, which would widen it or, as here, drop what it hides.
		fields.Values{}.With("mount", []string{"/etc"}), fields.Values{}.With("reveal", []string{"a=read"}), fields.Values{}.With("network", "none"),
	} {
		flags := *base
		if err := may.choose(&flags, &service.Params{Settings: set}); !errors.Is(err, runtime.ErrDenied) {
			t.Errorf("%v: got %v, want runtime.ErrDenied", set, err)
		}
	}
}
