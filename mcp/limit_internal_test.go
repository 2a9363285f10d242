package mcp

import (
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client that takes no progress gives up after 60 s: the call ends before.
func TestTimeLimit(t *testing.T) {
	for _, test := range []struct {
		token any
		asked int64
		want  time.Duration
	}{{nil, 0, quietTimeout}, {"t", 0, defaultTimeout}, {nil, 70_000, 70 * time.Second}, {"t", 1, time.Millisecond}} {
		c := &call{req: &sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{}}}
		if test.token != nil {
			c.req.Params.SetProgressToken(test.token)
		}
		if got, err := c.timeLimit(test.asked); err != nil || got != test.want {
			t.Errorf("%v, %d: got %v, %v; want %v", test.token, test.asked, got, err, test.want)
		}
	}
}
