package dialect

import (
	"fmt"
	"strings"
)

// Overridden is the last line of an override that has done all of it; one that was cut
// short prints less. It is not an exit status, since a shell under set -e would die of that.
const Overridden = "#overridden\n"

// Override makes a script that sets directory and variables for one call, unsets those of
// attended (see [Dialect.Attended]), and prints what undoes it.
func (d Dialect) Override(dir string, env, attended []string) (string, error) {
	if strings.Contains(dir, "\x00") {
		return "", fmt.Errorf("working directory %q", dir)
	}
	var undo, do strings.Builder
	u, unset := d.Attended(attended)
	undo.WriteString(u)
	for _, kv := range env {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || !isName(name) || strings.Contains(value, "\x00") {
			return "", fmt.Errorf("variable %q: want NAME=VALUE", kv)
		}
		if d.POSIX {
			fmt.Fprintf(&undo, "printf 'unset %[1]s\n'; [ -z \"${%[1]s+x}\" ] || w \"$%[1]s\" %[1]s=\n", name)
			fmt.Fprintf(&undo, "case \"\n$x\n\" in *\"\nexport %[1]s=\"*|*\"\nexport %[1]s\n\"*) printf 'export %[1]s\n' ;; esac\n", name)
			fmt.Fprintf(&do, "export %s=%s && ", name, quote(value))
			continue
		}
		fmt.Fprintf(&undo, "\\builtin printf '\\\\builtin unset %[1]s\n'; \\builtin declare -p %[1]s 2>/dev/null || \\builtin :\n", name)
		fmt.Fprintf(&do, "\\builtin export %s=%s && ", name, quote(value))
	}
	if d.POSIX {
		// w prints a value as one word, without a program: quotes are replaced.
		head := "(\nx=$(export -p)\n" +
			`w() { v=$1; q=; while case $v in *\'*) ;; *) false ;; esac; do q=$q${v%%\'*}"'\\''"; v=${v#*\'}; done; printf "%s'%s'\n" "$2" "$q$v"; }` + "\n"
		if dir != "" {
			undo.WriteString("w \"$PWD\" 'if cd -- '; printf 'then :; fi\\n'\n") // the directory may have been removed, and the shell be under set -e
			do.WriteString(`\cd -- ` + quote(dir) + ` >/dev/null && `)
		}
		return head + undo.String() + ")\n" + unset + do.String() + `printf '#overridden\n' || :` + "\n", nil
	}
	if dir != "" {
		undo.WriteString(`\builtin printf '\\builtin cd -- %q || \\builtin :\nOLDPWD=%q\n' "$PWD" "${OLDPWD-}"` + "\n")
		do.WriteString(`\builtin cd -- ` + quote(dir) + ` >/dev/null && `)
	}
	return undo.String() + unset + do.String() + `\builtin printf '#overridden\n' || \builtin :` + "\n", nil
}

func isName(name string) bool {
	for i, c := range []byte(name) {
		switch {
		case c == '_', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case '0' <= c && c <= '9' && i > 0:
		default:
			return false
		}
	}
	return name != ""
}
