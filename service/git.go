package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"wolffia/runtime"
)

// A GitConfig configures git in a sandbox for its owner. Username and Email are
// required.
//
// The token reaches the sandbox on the standard input of git credential. git's own
// credential cache keeps it there in memory, and gives it to git, and to any other
// process in the sandbox that asks. It is never in a file, an argument, an environment,
// or a log. It expires when the sandbox stops, and after 23 days; EnsureSandbox renews
// it.
type GitConfig struct {
	Username string `json:"username"` // of commits, and of the token
	Email    string `json:"email"`
	Token    Secret `json:"token,omitempty"` // empty: none
	// URL is the server that the token is for: http or https, and a host. Empty
	// means https://github.com.
	URL string `json:"url,omitempty"`
}

// A Secret is a text that prints, logs and encodes as a placeholder. string(s) is the
// text.
type Secret string

const hidden = "[secret]"

func (s Secret) String() string { return hidden }

// Format implements [fmt.Formatter], for all verbs.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// LogValue implements [slog.LogValuer].
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText implements [encoding.TextMarshaler], for JSON and other formats.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Secret) UnmarshalText(text []byte) error {
	*s = Secret(text)
	return nil
}

// defaultGitURL is the default of GitConfig.URL.
const defaultGitURL = "https://github.com"

// validate returns nil for nil.
func (g *GitConfig) validate() error {
	if g == nil {
		return nil
	}
	var wrong []error
	for _, f := range []struct {
		what, text string
		required   bool
	}{{"username", g.Username, true}, {"email", g.Email, true}, {"token", string(g.Token), false}, {"url", g.URL, false}} {
		switch { // no error shows the text: it may be a secret in the wrong field
		case f.text == "" && f.required:
			wrong = append(wrong, fmt.Errorf("git %s: empty", f.what))
		case len(f.text) > 4096 || !utf8.ValidString(f.text) || strings.ContainsFunc(f.text, unicode.IsControl):
			wrong = append(wrong, fmt.Errorf("git %s: not one line of UTF-8 text of at most 4096 bytes", f.what))
		}
	}
	u, err := url.Parse(cmp.Or(g.URL, defaultGitURL))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(g.URL, " \\\"*") {
		wrong = append(wrong, errors.New("git url: want http:// or https://, and a host, without a user"))
	}
	if len(wrong) == 0 {
		return nil
	}
	return runtime.WithClass(runtime.ErrInvalid, errors.Join(wrong...))
}

// gitScript configures git for user $1 with address $2 and, if $4 is set, stores the
// credential on standard input for URLs below $3. The cache counts milliseconds in 31
// bits: it would ignore a timeout of more than 23 days.
const gitScript = `
git --version >/dev/null 2>&1 </dev/null || exit 40
set -e
git config --global --replace-all -- user.name "$1" </dev/null
git config --global --replace-all -- user.email "$2" </dev/null
[ -n "$4" ] || exit 0
git config --global --replace-all -- "credential.$3.helper" "cache --timeout=2000000" </dev/null
printf 'url=%s\n\n' "$3" | git credential reject
git credential approve
`

// exitNoGit is the script's exit code without git.
const exitNoGit = 40

// configureGit configures git in the sandbox.
func configureGit(ctx context.Context, rt Runtime, sandboxID string, g *GitConfig) error {
	if err := g.validate(); err != nil {
		return err
	}
	u := cmp.Or(g.URL, defaultGitURL)
	token := ""
	var stdin []byte
	if g.Token != "" {
		token = "yes"
		stdin = fmt.Appendf(nil, "url=%s\nusername=%s\npassword=%s\n\n", u, g.Username, string(g.Token))
	}
	r, err := inside(ctx, rt, sandboxID, stdin, "sh", "-c", gitScript, "sh", g.Username, g.Email, u, token)
	switch {
	case err != nil:
		return err
	case r.ExitCode == exitNoGit:
		return runtime.Errorf(runtime.ErrUnavailable, "configure git: sandbox %s has no git", sandboxID)
	case r.ExitCode != 0: // its output is not shown: it may hold the token
		return runtime.Errorf(runtime.ErrUnavailable, "configure git: exit code %d", r.ExitCode)
	}
	return nil
}
