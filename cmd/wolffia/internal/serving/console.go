package serving

import (
	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/host"
)

// A consolePage is the command console.
type consolePage struct {
	*host.Host
	listen string
	noOpen bool
}

// ConsoleCommand returns the command console.
func ConsoleCommand(h *host.Host) *cobra.Command {
	p := &consolePage{Host: h}
	cmd := &cobra.Command{
		Use:   "console [--no-open] [--listen 127.0.0.1:PORT]",
		Short: "Watch and use all sandboxes on a page in the browser",
		Long: `Serve a page in the browser with all sandboxes of the state directory: what each of them
does, uses, was refused and has changed, its terminals, files and rules, and what waits for
an answer. The address is printed, and opened in a browser if there is one. It has a token,
which the browser sends to nobody but this process. Only processes of yours and of root are
served. Ctrl-C ends the page; sandboxes go on.`,
		Example: `  wolffia console
  wolffia console --no-open --listen 127.0.0.1:7070    # for ssh -L 7070:127.0.0.1:7070`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.show(cmd) },
	}
	cmd.Flags().StringVar(&p.listen, "listen", "127.0.0.1:0", "loopback address to listen on; port 0 is any that is free")
	cmd.Flags().BoolVar(&p.noOpen, "no-open", false, "print the address only")
	return cmd
}
