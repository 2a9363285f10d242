package envd_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"time"

	"wolffia/service/e2b/envd"
)

const (
	octets = "application/octet-stream"
	f      = "filesystem.Filesystem/"
)

// is sends a request, whose reply must have a status and a text.
func (w *world) is(method, path, body string, status int, part string, headers ...string) {
	w.Helper()
	got, text := w.do(method, path, body, headers...)
	if got != status || !strings.Contains(text, part) {
		w.Errorf("%s %s: %d %.300s, want %d %s", method, path, got, text, status, part)
	}
	if status >= 400 && !strings.HasPrefix(text, fmt.Sprintf(`{"code":%d,"message":"`, status)) {
		w.Errorf("%s %s: not an error: %s", method, path, text)
	}
}

func TestFiles(t *testing.T) {
	w := newWorld(t)
	w.is("POST", "/files?path=a/b.txt", "hello", 200, `[{"name":"b.txt","path":"/home/user/a/b.txt","type":"file"}]`, "Content-Type", octets)
	for _, path := range []string{"a/b.txt", "~/a/b.txt", "/home/user/a/b.txt", "a/../a/b.txt"} {
		w.is("GET", "/files?path="+path, "", 200, "hello")
	}
	w.is("GET", "/files?path=a/b.txt", "", 206, "ell", "Range", "bytes=1-3")
	w.is("GET", "/files?path=a/b.txt", "", 416, "", "Range", "bytes=10-")
	w.is("GET", "/files?path=a/b.txt&username=root", "", 401, "root")
	w.is("GET", "/files?path=a/b.txt&username=nobody-such", "", 401, "invalid username")
	w.is("GET", "/files?path=a", "", 400, "")
	w.is("GET", "/files?path=none", "", 404, "no such file")
	w.is("GET", "/files?path=~bob/x", "", 400, "")
	w.is("GET", "/files?path=a/b.txt", "", 406, "", "Accept-Encoding", "identity;q=0, gzip;q=0")
	w.is("POST", "/files", "x", 400, "path", "Content-Type", octets)
	w.is("POST", "/files?path=x", "x", 400, "Content-Type", "Content-Type", "text/plain")
	w.is("POST", "/files?path=a", "x", 400, "", "Content-Type", octets)
	w.is("POST", "/files?path=a/b.txt/c", "x", 404, "", "Content-Type", octets)
	w.is("POST", "/files?path=x", "x", 400, "gzip", "Content-Type", octets, "Content-Encoding", "gzip")
	w.is("POST", "/files?path=x", "x", 400, "br", "Content-Type", octets, "Content-Encoding", "br")
	w.is("POST", "/files?path=empty", "", 200, "empty", "Content-Type", octets)
	w.is("GET", "/files?path=empty", "", 200, "")

	r := w.send("GET", "/files?path=a/b.txt", nil)
	w.OK(r.Body.Close())
	if status, _ := w.do("GET", "/files?path=a/b.txt", "", "If-Modified-Since", r.Header.Get("Last-Modified")); status != 304 {
		t.Errorf("a file that has not changed: %d", status)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write([]byte("zipped"))
	w.OK(err)
	w.OK(z.Close())
	w.is("POST", "/files?path=z", zipped.String(), 200, "/home/user/z", "Content-Type", octets, "Content-Encoding", "gzip")
	w.is("GET", "/files?path=z", "", 200, "zipped")
	r = w.send("GET", "/files?path=z", nil, "Accept-Encoding", "gzip, identity;q=0")
	defer r.Body.Close()
	in, err := gzip.NewReader(r.Body)
	w.OK(err)
	if text, err := io.ReadAll(in); string(text) != "zipped" || err != nil || r.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%q, %v", text, err)
	}
}

// form returns a body with files, by name, and its type.
func form(t *testing.T, files ...string) (body, media string) {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	if err := m.WriteField("other", "ignored"); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(files); n += 2 {
		head := textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf(`form-data; name="file"; filename=%q`, files[n])}}
		if files[n] == "" {
			head.Set("Content-Disposition", `form-data; name="file"`)
		}
		part, err := m.CreatePart(head)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(part, files[n+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String(), m.FormDataContentType()
}

func TestForms(t *testing.T) {
	w := newWorld(t)
	body, media := form(t, "d/one", "1", "/home/user/two", "2")
	w.is("POST", "/files", body, 200, `[{"name":"one","path":"/home/user/d/one","type":"file"},{"name":"two","path":"/home/user/two","type":"file"}]`, "Content-Type", media)
	w.is("GET", "/files?path=d/one", "", 200, "1")
	body, media = form(t, "", "named by the query")
	w.is("POST", "/files?path=q", body, 200, "/home/user/q", "Content-Type", media)
	w.is("POST", "/files", body, 400, "name", "Content-Type", media)
	body, media = form(t, "x", "first", "./x", "second")
	w.is("POST", "/files", body, 400, "only the first", "Content-Type", media)
	w.is("GET", "/files?path=x", "", 200, "first")
	body, media = form(t, "x", "cut off")
	w.is("POST", "/files", body[:len(body)-20], 400, "", "Content-Type", media)
	body, media = form(t)
	w.is("POST", "/files", body, 200, "[]", "Content-Type", media)
}

func TestMetadata(t *testing.T) {
	w := newWorld(t)
	w.is("POST", "/files?path=m", "x", 200, `"metadata":{"author":"me","b-c":"d e"}`, "Content-Type", octets, "X-Metadata-Author", "me", "X-Metadata-B-C", "d e")
	entry := w.rpc(f+"Stat", m{"path": "m"}, 200)["entry"].(map[string]any)
	if got := fmt.Sprint(entry["metadata"]); got != "map[author:me b-c:d e]" {
		t.Error(got)
	}
	w.is("POST", "/files?path=m", "y", 200, `"type":"file"}]`, "Content-Type", octets)
	w.run(`python3 -c "import os; os.setxattr('m', 'user.e2b.a', b'1'); os.setxattr('m', 'user.other', b'2')"`)
	entry = w.rpc(f+"Stat", m{"path": "m"}, 200)["entry"].(map[string]any)
	if got := fmt.Sprint(entry["metadata"]); got != "map[a:1]" {
		t.Error(got)
	}
	w.is("POST", "/files?path=m", "z", 400, "metadata", "Content-Type", octets, "X-Metadata-"+strings.Repeat("a", 300), "x")
	w.is("POST", "/files?path=m", "z", 400, "metadata", "Content-Type", octets, "X-Metadata-A", strings.Repeat("a", 4097))
	w.is("POST", "/files?path=m", "z", 400, "metadata", "Content-Type", octets, "X-Metadata-A", "ä")
	w.is("GET", "/files?path=m", "", 200, "y")
	w.is("POST", "/files?path=/workspace/m", "z", 501, "attributes", "Content-Type", octets, "X-Metadata-A", "x")
}

// sign returns the query of a URL that a token has signed.
func sign(key, path, op, user string, until *int64) string {
	text, q := strings.Join([]string{path, op, user, key}, ":"), url.Values{"path": {path}}
	if user != "" {
		q.Set("username", user)
	}
	if until != nil {
		text += fmt.Sprint(":", *until)
		q.Set("signature_expiration", fmt.Sprint(*until))
	}
	sum := sha256.Sum256([]byte(text))
	q.Set("signature", "v1_"+base64.RawStdEncoding.EncodeToString(sum[:]))
	return "/files?" + q.Encode()
}

func TestSignatures(t *testing.T) {
	w := newWorld(t)
	none := []string{"X-Access-Token", "", "Content-Type", octets}
	later, before := time.Now().Unix()+100, time.Now().Unix()-100
	w.is("POST", sign(token, "a b+c", "write", "", nil), "text", 200, "/home/user/a b+c", none...)
	w.is("GET", sign(token, "a b+c", "read", "user", &later), "", 200, "text", none...)
	w.is("GET", sign(token, "a b+c", "read", "", &before), "", 401, "signature is already expired", none...)
	w.is("GET", sign(token, "a b+c", "write", "", nil), "", 401, "invalid signature", none...)
	w.is("POST", sign(token, "a b+c", "read", "", nil), "", 401, "invalid signature", none...)
	w.is("GET", sign("another", "a b+c", "read", "", nil), "", 401, "invalid signature", none...)
	w.is("GET", strings.Replace(sign(token, "a", "read", "", nil), "path=a", "path=b", 1), "", 401, "invalid signature", none...)
	w.is("GET", strings.Replace(sign(token, "a b+c", "read", "", &before), "expiration=", "expiration=9", 1), "", 401, "invalid signature", none...)
	w.is("GET", "/files?path=x", "", 401, "missing signature", none...)
	w.is("GET", sign(token, "a b+c", "read", "", nil), "", 401, "does not match", "X-Access-Token", "wrong")
	w.is("GET", "/files?path=%zz", "", 400, "", none...)
	for path, want := range map[string]bool{
		sign(token, "x", "read", "", &before): true, sign(token, "x", "write", "", nil): false, sign("other", "x", "read", "", nil): false, "/files?path=x": false,
	} {
		r, err := http.NewRequestWithContext(w.Ctx, http.MethodGet, path, nil)
		w.OK(err)
		if got := envd.Signs(token, r); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	r, err := http.NewRequestWithContext(w.Ctx, http.MethodGet, sign("", "x", "read", "", nil), nil)
	w.OK(err)
	if envd.Signs("", r) {
		t.Error("no token has signed a URL")
	}
}

func TestOthers(t *testing.T) {
	w := newWorld(t)
	w.is("GET", "/envs", "", 200, `"FROM_BOX":"1"`)
	w.is("GET", "/envs", "", 401, "token", "X-Access-Token", "")
	w.is("GET", "/metrics", "", 200, `"mem_total":`)
	w.is("GET", "/metrics", "", 401, "token", "X-Access-Token", "no")
	w.is("POST", "/init", "{}", 501, "init")
	w.is("POST", "/init", "{}", 401, "token", "X-Access-Token", "")
	w.is("GET", "/none", "", 404, "")
	w.is("POST", "/files?path=1", "one", 200, "", "Content-Type", octets)
	w.is("POST", "/files?path=2", "two", 200, "", "Content-Type", octets)
	w.is("POST", "/files/compose", `{"source_paths":["1","none"],"destination":"x"}`, 404, "none")
	w.is("POST", "/files/compose", `{"source_paths":["1","x"],"destination":"x"}`, 400, "both")
	w.is("POST", "/files/compose", `{"source_paths":[],"destination":"x"}`, 400, "source_paths")
	w.is("POST", "/files/compose", `{"source_paths":["1","2"],"destination":"d/x"}`, 200, `{"name":"x","path":"/home/user/d/x","type":"file"}`)
	w.is("GET", "/files?path=d/x", "", 200, "onetwo")
	w.is("GET", "/files?path=1", "", 404, "")
}

// A request has a bounded number of parts, of whatever name.
func TestManyParts(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"other", "file"} {
		var body bytes.Buffer
		to := multipart.NewWriter(&body)
		for n := range 10_001 {
			if name == "file" && n > 0 { // those would be written
				name = "other"
			}
			part, err := to.CreateFormFile(name, "x")
			w.OK(err)
			_, err = part.Write([]byte("x"))
			w.OK(err)
		}
		w.OK(to.Close())
		w.is("POST", "/files", body.String(), 413, "parts", "Content-Type", to.FormDataContentType())
	}
}
