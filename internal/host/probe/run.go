package probe

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
)

// readFile returns the content of a small file; "" if it cannot be read.
func readFile(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

// output runs a program, with only PATH and LC_ALL in its environment, and returns the
// first 4096 bytes of its output.
func output(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var buf bytes.Buffer
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C"}
	cmd.Stdout, cmd.Stderr = &buf, &buf
	cmd.WaitDelay = timeout
	err := cmd.Run()
	if ctx.Err() != nil {
		err = errors.Join(errors.New("timeout"), ctx.Err())
	}
	return strings.TrimSpace(buf.String()[:min(buf.Len(), 4096)]), err
}

// firstLine returns the first line of text, without control characters.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, line)
}

// version returns the numbers in the first word of text that begins with a
// digit, such as 0, 8, 0 in "bubblewrap 0.8.0".
func version(text string) []int {
	for word := range strings.FieldsSeq(text) {
		if word[0] < '0' || word[0] > '9' {
			continue
		}
		numbers := []int{0}
		for _, c := range word {
			switch {
			case c == '.':
				numbers = append(numbers, 0)
			case '0' <= c && c <= '9' && numbers[len(numbers)-1] < 1e6:
				numbers[len(numbers)-1] = numbers[len(numbers)-1]*10 + int(c-'0')
			default:
				return numbers
			}
		}
		return numbers
	}
	return nil
}
