package serving

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/fields"
	"wolffia/runtime"
)

// A unit describes a service to systemd (systemd.service(5), systemd.socket(5)).
type unit struct {
	command []string // the program, and its arguments
	dir     string   // where relative paths begin
	user    string   // of a unit of the system; empty: it is the user's own unit
	reloads bool     // SIGHUP reads the settings again
	listen  string   // where systemd listens: a path or HOST:PORT; empty: the service listens
}

// unitMark begins the files that install writes, and uninstall removes.
const unitMark = "# Written by wolffia serve install; wolffia serve uninstall removes it.\n"

// service returns the text of wolffia.service.
func (u *unit) service() string {
	var b strings.Builder
	b.WriteString(unitMark + "[Unit]\nDescription=wolffia: sandboxes over HTTP\nDocumentation=man:wolffia-serve(1)\nAfter=network.target\n\n")
	b.WriteString("[Service]\nType=notify\nExecStart=")
	for i, word := range u.command {
		b.WriteString(strings.Repeat(" ", min(i, 1)) + unitWord(word))
	}
	b.WriteString("\n")
	if u.reloads {
		b.WriteString("ExecReload=/bin/kill -HUP $MAINPID\n")
	}
	fmt.Fprintf(&b, "WorkingDirectory=%s\n", strings.ReplaceAll(u.dir, "%", "%%"))
	if u.user != "" {
		fmt.Fprintf(&b, "User=%s\nDelegate=yes\n", u.user)
	}
	// KillMode=process: the sandboxes outlive the service.
	b.WriteString("KillMode=process\nRestart=on-failure\nWatchdogSec=60\n")
	if u.listen == "" {
		target := map[bool]string{true: "default.target", false: "multi-user.target"}[u.user == ""]
		fmt.Fprintf(&b, "\n[Install]\nWantedBy=%s\n", target)
	}
	return b.String()
}

// socket returns the text of wolffia.socket.
func (u *unit) socket() string {
	user := ""
	if u.user != "" {
		user = "SocketUser=" + u.user + "\n"
	}
	return unitMark + "[Unit]\nDescription=wolffia: the socket of its service\n\n[Socket]\nListenStream=" + strings.ReplaceAll(u.listen, "%", "%%") +
		"\nSocketMode=0600\nDirectoryMode=0700\n" + user + "\n[Install]\nWantedBy=sockets.target\n"
}

// unitWord returns a word of a command line as systemd reads it (systemd.service(5), "Command
// lines"). %d/ at its beginning, the directory of the unit's credentials, stays.
func unitWord(s string) string {
	before := ""
	if rest, is := strings.CutPrefix(s, credentials); is {
		before, s = credentials, rest
	}
	s = before + strings.NewReplacer("%", "%%", "$", "$$", `\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
	if s != "" && !strings.ContainsAny(s, " \t'\";") {
		return s
	}
	return `"` + s + `"`
}

// credentials is the directory of a unit's credentials, in the unit (systemd.unit(5), "Specifiers").
const credentials = "%d/"

// unitFlags are the flags of serve install and uninstall.
type unitFlags struct {
	system, socket bool
	user           string
}

// dir returns the directory of the unit's files.
func (f *unitFlags) dir() (string, error) {
	if f.system {
		return "/etc/systemd/system", nil
	}
	config, err := os.UserConfigDir()
	if err != nil {
		return "", runtime.Errorf(runtime.ErrInvalid, "the units of your systemd are in ~/.config/systemd/user: %w", err)
	}
	return filepath.Join(config, "systemd", "user"), nil
}

// systemctl is the command for the user's or the system's systemd.
func (f *unitFlags) systemctl() string {
	if f.system {
		return "systemctl"
	}
	return "systemctl --user"
}

func (f *unitFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.system, "system", false, "a unit of the system, in /etc/systemd/system, not one of your own systemd")
}

func installCommand(h *host.Host) *cobra.Command {
	var f unitFlags
	cmd := &cobra.Command{
		Use:   "install [--socket] [--system --as USER] [-- FLAGS OF serve]",
		Short: "Write systemd units for wolffia serve, and print how to start it",
		Long: `Write wolffia.service for systemd, in ~/.config/systemd/user or, with --system, in
/etc/systemd/system. The flags after -- are those of serve; relative paths in them begin at the current
directory. systemd restarts a service that fails or hangs; systemctl reload reads --config
and --api-keys again. Sandboxes outlive it.`,
		Example: `  wolffia serve install -- --config ~/.config/wolffia/serve.yaml
  wolffia serve install --socket -- --codebase ~/src/web`,
		RunE: func(_ *cobra.Command, args []string) error { return f.install(h, args) },
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.socket, "socket", false, "have systemd listen: the first request starts the service")
	cmd.Flags().StringVar(&f.user, "as", "", "with --system, the user that the service runs as")
	return cmd
}

func uninstallCommand(h *host.Host) *cobra.Command {
	var f unitFlags
	cmd := &cobra.Command{
		Use:   "uninstall [--system]",
		Short: "Remove what wolffia serve install has written",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return f.uninstall(h) },
	}
	f.add(cmd)
	return cmd
}

// install writes the units for serve with args.
func (f *unitFlags) install(h *host.Host, args []string) error {
	if f.system != (f.user != "") {
		return runtime.Errorf(runtime.ErrInvalid, "--system and --as USER belong together: a unit of the system names the user that it runs as")
	}
	u, err := f.unit(h, args)
	if err != nil {
		return err
	}
	dir, err := f.dir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, starts := map[string]string{"wolffia.service": u.service()}, "wolffia.service"
	if u.listen != "" {
		files["wolffia.socket"], starts = u.socket(), "wolffia.socket"
	}
	for name := range files {
		if err := ownUnit(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(h.Out, "wrote %s\n", filepath.Join(dir, name))
	}
	fmt.Fprintf(h.Out, "start it: %s daemon-reload && %[1]s enable --now %s\n", f.systemctl(), starts)
	if !f.system {
		fmt.Fprintf(h.Out, "keep it when you log out: sudo loginctl enable-linger $USER\n")
	}
	return nil
}

// unit checks args, the flags of serve, and returns the unit.
func (f *unitFlags) unit(h *host.Host, args []string) (*unit, error) {
	typed := new(cobra.Command)
	sandboxflags.AddFields(h, typed, fields.Serve)
	if err := typed.ParseFlags(args); err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "after --: %w: it takes the flags of wolffia serve", err)
	}
	if rest := typed.Flags().Args(); len(rest) > 0 {
		return nil, runtime.Errorf(runtime.ErrInvalid, "after --: %q is no flag of wolffia serve", rest[0])
	}
	listen := typed.Flag("listen").Value.String()
	if !f.system { // else its files are another user's
		flags, err := sandboxflags.ForService(h, typed.Flags())
		if err != nil {
			return nil, err
		}
		if _, err := sandboxflags.ParseQuotas(flags.List("quota")); err != nil {
			return nil, err
		}
		if f.socket && flags.Text("listen") != listen {
			return nil, runtime.Errorf(runtime.ErrInvalid,
				"--socket: the file of --config has listen: remove it there, and write --listen after --")
		}
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	u := &unit{command: []string{program}, user: f.user}
	if u.dir, err = os.Getwd(); err != nil {
		return nil, err
	}
	state, err := h.StatePath()
	if err != nil {
		return nil, err
	}
	if h.StateDir != "" || !f.system && os.Getenv("WOLFFIA_STATE_DIR") != "" { // systemd does not pass the variable on
		u.command = append(u.command, "--state-dir", state)
	}
	u.command = append(append(u.command, "serve"), args...)
	u.reloads = typed.Flags().Changed("config") || typed.Flags().Changed("api-keys")
	if !f.socket {
		return u, nil
	}
	if f.system && listen == "" {
		return nil, runtime.Errorf(runtime.ErrInvalid, "--socket with --system: the state directory is another user's: write --listen unix:PATH or HOST:PORT after --")
	}
	path, err := socketPath(listen, state)
	if err != nil {
		return nil, err
	}
	u.listen = cmp.Or(path, listen)
	if at := slices.Index(u.command, "--listen"); at >= 0 {
		u.command = slices.Delete(u.command, at, at+2)
	}
	u.command = slices.DeleteFunc(u.command, func(s string) bool { return strings.HasPrefix(s, "--listen=") })
	return u, nil
}

// ownUnit returns an error unless install has written the file; fs.ErrNotExist: there is none.
func ownUnit(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(text), unitMark) {
		return runtime.Errorf(runtime.ErrConflict, "%s was not written by wolffia serve install: move it away first", path)
	}
	return nil
}

// uninstall removes the units.
func (f *unitFlags) uninstall(h *host.Host) error {
	dir, err := f.dir()
	if err != nil {
		return err
	}
	found := false
	for _, name := range []string{"wolffia.socket", "wolffia.service"} {
		path := filepath.Join(dir, name)
		err := ownUnit(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.Remove(path)
		}
		if err != nil {
			return err
		}
		found = true
		fmt.Fprintf(h.Out, "removed %s; stop it: %s disable --now %s && %[2]s daemon-reload\n", path, f.systemctl(), name)
	}
	if !found {
		return runtime.Errorf(runtime.ErrNotFound, "there is no unit of wolffia in %s", dir)
	}
	return nil
}
