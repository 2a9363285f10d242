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

// A GitConfig has git work in a sandbox for its owner. Username and Email are
// required.
//
// The token reaches the sandbox on the standard input of git credential, and is
// kept there in the memory of git's own credential cache, which hands it to git,
// as it does to whatever else runs in the sandbox and asks for it. It is never in
// a file, an argument, an environment, or a log. It is there until the sandbox
// stops, and for at most 23 days; EnsureSandbox renews it.
type GitConfig struct {
	Username string `json:"username"` // of commits, and of the token
	Email    string `json:"email"`
	Token    Secret `json:"token,omitempty"` // empty: none
	// URL is what the token is for: http or https, and a host. Empty means
	// https://github.com.
	URL string `json:"url,omitempty"`
}

// A Secret is a text that is not printed, logged or encoded: all of these show
// a placeholder. string(s) is the text.
type Secret string

const hidden = "[secret]"

func (s Secret) String() string   { return hidden }
func (s Secret) GoString() string { return hidden }

// Format implements [fmt.Formatter]: whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// LogValue implements [slog.LogValuer].
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText implements [encoding.TextMarshaler], for JSON and others.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Secret) UnmarshalText(text []byte) error {
	*s = Secret(text)
	return nil
}

// defaultGitURL is what a token is for if nobody says otherwise.
const defaultGitURL = "https://github.com"

func (g *GitConfig) validate() error {
	var wrong []error
	for _, f := range []struct {
		what, text string
		required   bool
	}{{"username", g.Username, true}, {"email", g.Email, true}, {"token", string(g.Token), false}, {"url", g.URL, false}} {
		switch { // and never with the text, which may be a secret in the wrong place
		case f.text == "" && f.required:
			wrong = append(wrong, fmt.Errorf("git %s: it is empty", f.what))
		case len(f.text) > 4096 || !utf8.ValidString(f.text) || strings.ContainsFunc(f.text, unicode.IsControl):
			wrong = append(wrong, fmt.Errorf("git %s: it must be one line of text", f.what))
		}
	}
	u, err := url.Parse(cmp.Or(g.URL, defaultGitURL))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(g.URL, " \\\"*") {
		wrong = append(wrong, errors.New("git url: it must be http:// or https://, and a host, without a user"))
	}
	if len(wrong) == 0 {
		return nil
	}
	return runtime.WithClass(runtime.ErrInvalid, errors.Join(wrong...))
}

// gitScript configures git for user $1 with address $2, and has the credential
// on standard input, if $4 is set, kept for what is below the URL $3. The cache
// counts in milliseconds, in 31 bits: more than 23 days would be none.
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

// ConfigureGit has git work in a sandbox that runs, as [GitConfig] says.
func (d *Driver) ConfigureGit(ctx context.Context, sandboxID string, g *GitConfig) error {
	if err := checkID(sandboxID); err != nil {
		return err
	}
	if err := g.validate(); err != nil {
		return err
	}
	u := cmp.Or(g.URL, defaultGitURL)
	token := ""
	var stdin []byte
	if g.Token != "" {
		token = "there is one"
		stdin = fmt.Appendf(nil, "url=%s\nusername=%s\npassword=%s\n\n", u, g.Username, string(g.Token))
	}
	r, err := d.inside(ctx, sandboxID, stdin, "sh", "-c", gitScript, "sh", g.Username, g.Email, u, token)
	switch {
	case err != nil:
		return err
	case r.ExitCode == exitNoGit:
		return runtime.Errorf(runtime.ErrUnavailable, "configure git: there is no git in the sandbox")
	case r.ExitCode != 0: // what it said is not shown: it has been given a secret
		return runtime.Errorf(runtime.ErrUnavailable, "configure git: it failed with exit code %d", r.ExitCode)
	}
	return nil
}
