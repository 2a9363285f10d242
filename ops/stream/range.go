package stream

import (
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// A ByteRange is what the header Range asks for.
type ByteRange struct {
	From  int64 // negative: from the end
	Most  int64 // negative: all
	asked bool  // there is such a header
}

// RangeOf parses the header Range. The whole file is also the reply to a range that is not
// understood, and to several.
func RangeOf(header string) ByteRange {
	all := ByteRange{Most: -1}
	text, is := strings.CutPrefix(header, "bytes=")
	first, last, ok := strings.Cut(text, "-")
	if !is || !ok || strings.Contains(text, ",") {
		return all
	}
	a, aerr := strconv.ParseUint(first, 10, 62)
	b, berr := strconv.ParseUint(last, 10, 62)
	switch {
	case first == "" && berr == nil && b > 0:
		return ByteRange{-int64(b), -1, true}
	case aerr != nil:
	case last == "":
		return ByteRange{int64(a), -1, true}
	case berr == nil && b >= a:
		return ByteRange{int64(a), int64(b-a) + 1, true}
	}
	return all
}

// BeginFile begins the reply with a part of a file of this size, in bytes. With an error nothing
// was sent: the file has nothing of the range, of which status 416 is the reply.
func BeginFile(w http.ResponseWriter, name string, r ByteRange, start, bytes, size int64) error {
	header := w.Header()
	header.Set("Accept-Ranges", "bytes")
	// as in net/http: no range of an empty file is satisfiable, and clients read it so all the
	// same
	partial := r.asked && size > 0
	if partial && bytes <= 0 {
		header.Set("Content-Range", "bytes */"+strconv.FormatInt(size, 10))
		return fmt.Errorf("the range is beyond the %d bytes of the file", size)
	}
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	header.Set("Content-Length", strconv.FormatInt(bytes, 10))
	if partial {
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, start+bytes-1, size))
		w.WriteHeader(http.StatusPartialContent)
	}
	return nil
}
