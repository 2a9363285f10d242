package loadtest

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// A door is an interface of the service: what one client does in a round, whose answers must be its
// own. word is a text that no other round has.
type door struct {
	flags []string // of serve
	image bool     // it needs an image
	round func(c *client, word string) error
}

var doors = map[string]door{
	"e2b": {round: e2b}, "opensandbox": {round: openSandbox}, "swerex": {round: sweReX}, "mcp": {round: agents},
	"native": {round: native},
	"docker": {flags: []string{"--docker-socket", "SOCKET"}, image: true, round: docker},
	"mixed":  {flags: []string{"--docker-socket", "SOCKET"}, image: true, round: mixed},
}

// mixed uses one of the interfaces after the other.
func mixed(c *client, word string) error {
	all, at := []func(*client, string) error{e2b, openSandbox, sweReX, agents, native, docker}, 0
	for _, b := range []byte(word) {
		at = at*31 + int(b)
	}
	return all[at%len(all)](c, word)
}

const typeJSON = "application/json"

// e2b creates a sandbox, runs a command, writes and reads a file, and kills it.
func e2b(c *client, word string) error {
	var b struct {
		ID    string `json:"sandboxID"`
		Token string `json:"envdAccessToken"`
	}
	text, err := c.ask("POST", "/v2/sandboxes", `{"templateID":"base","timeout":300}`, 201, "")
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		return err
	}
	at := []string{"E2b-Sandbox-Id", b.ID, "E2b-Sandbox-Port", "49983", "X-Access-Token", b.Token}
	start := `{"process":{"cmd":"/bin/bash","args":["-l","-c","echo ` + word + `"]},"stdin":false}`
	frame := string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(start)))) + start
	out := base64.StdEncoding.EncodeToString([]byte(word + "\n"))
	steps := []step{
		{"POST", "/process.Process/Start", frame, 200, out, append([]string{"Content-Type", "application/connect+json"}, at...)},
		{"POST", "/files?path=f", word, 200, "/home/user/f", append([]string{"Content-Type", "application/octet-stream"}, at...)},
		{"GET", "/files?path=f", "", 200, word, at},
		{"POST", "/filesystem.Filesystem/ListDir", `{"path":"/home/user"}`, 200, "FILE_TYPE_FILE", append([]string{"Content-Type", typeJSON}, at...)},
		{"GET", "/v2/sandboxes?limit=5", "", 200, "sandboxID", nil},
		{"DELETE", "/sandboxes/" + b.ID, "", 204, "", nil},
	}
	return c.all(steps)
}

func openSandbox(c *client, word string) error {
	var b struct {
		ID string `json:"id"`
	}
	text, err := c.ask("POST", "/v1/sandboxes", `{"image":{"uri":"host"}}`, 202, "", "Content-Type", typeJSON)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		return err
	}
	execd := "/sandboxes/" + b.ID + "/port/44772"
	upload := "--b\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n\r\n{\"path\":\"/tmp/f\"}\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n" + word + "\r\n--b--\r\n"
	return c.all([]step{
		{"POST", execd + "/command", `{"command":"echo ` + word + `"}`, 200, `"text":"` + word + `"`, []string{"Content-Type", typeJSON}},
		{"POST", execd + "/files/upload", upload, 200, "", []string{"Content-Type", "multipart/form-data; boundary=b"}},
		{"GET", execd + "/files/download?path=/tmp/f", "", 200, word, nil},
		{"GET", "/v1/sandboxes/" + b.ID, "", 200, b.ID, nil},
		{"DELETE", "/v1/sandboxes/" + b.ID, "", 204, "", nil},
	})
}

// sweReX uses a session of the one sandbox that clients of a key share.
func sweReX(c *client, word string) error {
	jsonType := []string{"Content-Type", typeJSON}
	return c.all([]step{
		{"POST", "/create_session", `{"session":"` + word + `","startup_timeout":60}`, 200, "session_type", jsonType},
		{"POST", "/run_in_session", `{"session":"` + word + `","command":"A=` + word + `; echo $A","timeout":60}`, 200, word, jsonType},
		{"POST", "/write_file", `{"path":"/tmp/` + word + `","content":"` + word + `"}`, 200, "", jsonType},
		{"POST", "/read_file", `{"path":"/tmp/` + word + `"}`, 200, word, jsonType},
		{"POST", "/execute", `{"command":["rm","/tmp/` + word + `"],"timeout":60}`, 200, `"exit_code":0`, jsonType},
		{"POST", "/close_session", `{"session":"` + word + `"}`, 200, "", jsonType},
	})
}

// sessions has a value for each session of MCP: the service has at most 32.
var sessions = make(chan bool, 32)

// agents uses a session of MCP, and files of the one sandbox that all have.
func agents(c *client, word string) error {
	sessions <- true
	defer func() { <-sessions }()
	headers := []string{"Content-Type", typeJSON, "Accept", "application/json, text/event-stream"}
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	reply, _, err := c.send("POST", "/mcp", initialize, 200, "", headers...)
	if err != nil {
		return err
	}
	headers = append(headers, "Mcp-Session-Id", reply.Get("Mcp-Session-Id"))
	call := func(tool, arguments string) string {
		return `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
	}
	return c.all([]step{
		{"POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, "", headers},
		{"POST", "/mcp", call("bash", `{"command":"echo `+word+`"}`), 200, word, headers},
		{"POST", "/mcp", call("write_file", `{"path":"/tmp/`+word+`","content":"`+word+`"}`), 200, "", headers},
		{"POST", "/mcp", call("bash", `{"command":"cat /tmp/`+word+`; rm /tmp/`+word+`"}`), 200, word, headers},
		{"DELETE", "/mcp", "", 204, "", headers},
	})
}

// native uses a sandbox of an owner of its own: its shell, a job, a file.
func native(c *client, word string) error {
	var b struct {
		ID string `json:"sandboxId"`
	}
	const api = "/api/v1/"
	owner, jsonType := `{"organizationId":"o","projectId":"p","userId":"`+word+`"`, []string{"Content-Type", typeJSON}
	text, err := c.ask("POST", api+"createSandbox", owner+"}", 201, "", jsonType...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		return err
	}
	of := owner + `,"sandboxId":"` + b.ID + `"`
	return c.all([]step{
		{"POST", api + "executeBash", of + `,"command":"A=` + word + `; echo $A"}`, 200, word, jsonType},
		{"POST", api + "startJob", of + `,"name":"j","command":"echo $A"}`, 201, `"job"`, jsonType},
		{"POST", api + "waitJob", of + `,"job":"j","timeoutMs":60000}`, 200, `"exitCode":0`, jsonType},
		{"POST", api + "jobOutput", of + `,"job":"j"}`, 200, word, jsonType},
		{"POST", api + "writeFiles", of + `,"files":{"/tmp/f":{"content":"` + word + `"}}}`, 200, "", jsonType},
		{"POST", api + "readFile", of + `,"path":"/tmp/f"}`, 200, word, jsonType},
		{"POST", api + "destroySandbox", of + "}", 200, "true", jsonType},
	})
}

func docker(c *client, word string) error {
	var b struct{ Id string }
	jsonType := []string{"Content-Type", typeJSON}
	const api = "http://docker/v1.41/containers/"
	text, err := c.ask("POST", api+"create", `{"Image":"busybox:1","Cmd":["sh","-c","echo `+word+`"]}`, 201, "", jsonType...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		return err
	}
	return c.all([]step{
		{"POST", api + b.Id + "/start", "", 204, "", nil},
		{"POST", api + b.Id + "/wait", "", 200, `"StatusCode":0`, nil},
		{"GET", api + b.Id + "/logs?stdout=1", "", 200, word, nil},
		{"GET", api + b.Id + "/json", "", 200, b.Id, nil},
		{"DELETE", api + b.Id + "?force=1", "", 204, "", nil},
	})
}

// A step is a request and what its reply must have.
type step struct {
	method, path, body string
	status             int
	part               string
	headers            []string
}

func (c *client) all(steps []step) error {
	for _, s := range steps {
		if _, err := c.ask(s.method, s.path, s.body, s.status, s.part, s.headers...); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) ask(method, path, body string, status int, part string, headers ...string) (string, error) {
	_, text, err := c.send(method, path, body, status, part, headers...)
	return text, err
}

// send sends a request, whose reply must have the status and the part.
func (c *client) send(method, path, body string, status int, part string, headers ...string) (http.Header, string, error) {
	if path[0] == '/' {
		path = c.base() + path
	}
	q, err := http.NewRequestWithContext(c.ctx, method, path, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	reply, text, err := c.do(q)
	if err == nil && (reply.StatusCode != status || !strings.Contains(text, part)) {
		err = fmt.Errorf("%d, want %d with %q: %.500s", reply.StatusCode, status, part, text)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s %s: %w", method, path, err)
	}
	return reply.Header, text, nil
}
