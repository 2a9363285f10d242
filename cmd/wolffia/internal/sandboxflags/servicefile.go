package sandboxflags

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"wolffia/cmd/wolffia/internal/host"
	"wolffia/fields"
	"wolffia/internal/config"
	"wolffia/runtime"
)

// ForService returns the flags of a service: what typed, a command line, has and, below it, what
// the file of its flag --config has. typed stays as it is, so that the file can be read again.
func ForService(h *host.Host, typed *pflag.FlagSet) (*Sandbox, error) {
	f, cmd := new(Sandbox), new(cobra.Command)
	f.Add(h, cmd, fields.Serve)
	c := &configuration{flags: cmd.Flags(), origins: map[string]string{}}
	if path := typed.Lookup("config").Value.String(); path != "" {
		var err error
		if c.settings, err = serviceFile(path); err != nil {
			return nil, runtime.Errorf(runtime.ErrInvalid, "--config %s: %w", path, err)
		}
	}
	var failed error
	typed.Visit(func(given *pflag.Flag) {
		to := cmd.Flags().Lookup(given.Name)
		if to == nil { // the root command's
			return
		}
		var err error
		if list, several := given.Value.(pflag.SliceValue); several {
			err = to.Value.(pflag.SliceValue).Replace(list.GetSlice())
			to.Changed = true
		} else {
			err = cmd.Flags().Set(given.Name, given.Value.String())
		}
		if failed == nil {
			failed = err
		}
	})
	if failed != nil {
		return nil, failed
	}
	for _, k := range fields.ServiceKeys() {
		if settings := c.of(k.Key); len(settings) > 0 {
			if err := c.set(cmd.Flags().Lookup(k.Name), settings); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

// serviceFile returns the settings of the file of a service.
func serviceFile(path string) ([]config.Setting, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	data, err := config.ReadUser(abs)
	if err != nil {
		return nil, err
	}
	home, _ := os.UserHomeDir() // without one, ~ in a file is an error
	file, err := config.Parse(fields.ServiceKeys(), config.Place{Name: path, Dir: filepath.Dir(abs), Home: home}, data)
	if err != nil {
		return nil, err
	}
	if file.Profile != nil || file.Profiles != nil || file.Allow != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "profile, profiles, allow: the file of a service has none of them: write the keys themselves")
	}
	return file.Settings, nil
}
