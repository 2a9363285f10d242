package console_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// Several viewers have one terminal: each sees what all type, and one who joins what was before.
func TestViewers(t *testing.T) {
	w := newWorld(t)
	id := box(w)
	at := "sandboxes/" + id + "/sessions"
	if got := post[map[string]string](w, keyAnn, at, m{"name": "one"}); got["session"] != "one" {
		t.Fatalf("the session is %v", got)
	}
	first := view(w, keyAnn, at+"/one/terminal?rows=30&cols=100")
	second := view(w, keyAll, at+"/one/terminal")
	first.types("echo so-$((40+2))\n")
	first.shows("so-42")
	second.shows("so-42")
	second.types("echo also-$((40+3)); stty size\n")
	first.shows("also-43")
	first.shows("30 100")
	first.OK(first.conn.Write(first.Ctx, websocket.MessageText, []byte(`{"rows":40,"cols":120}`)))
	first.types("stty size\n")
	second.shows("40 120")
	third := view(w, keyAnn, at+"/one/terminal")
	if third.start != 0 || third.end == 0 {
		t.Errorf("it joins at %d, up to %d", third.start, third.end)
	}
	third.shows("so-42")
	third.shows("also-43")
	third.OK(third.conn.Close(websocket.StatusNormalClosure, ""))
	again := view(w, keyAnn, at+"/one/terminal?tail=0")
	if again.start != again.end {
		t.Errorf("without a tail it begins at %d of %d", again.start, again.end)
	}
	first.types("exit 3\n")
	for _, v := range []*viewer{first, second, again} {
		if text, status := v.last(); !strings.Contains(text, `"code":3`) || status != websocket.StatusNormalClosure {
			t.Errorf("the end is %q, %d", text, status)
		}
	}
}

// A viewer whose service was killed goes on where it was.
func TestViewerAfterARestart(t *testing.T) {
	w := newWorld(t)
	id := box(w)
	at := "sandboxes/" + id + "/sessions"
	post[m](w, keyAnn, at, m{"name": "one"})
	v := view(w, keyAnn, at+"/one/terminal")
	v.types("A=kept; echo first-$((1+1))\n")
	v.shows("first-2")
	next := v.start + uint64(v.seen.Len())
	w.Restart()
	v.last() // it ends
	run(w, id, "true")
	v = view(w, keyAnn, at+"/one/terminal?offset="+strconv.FormatUint(next, 10))
	if v.start != next {
		t.Errorf("it goes on at %d, want %d", v.start, next)
	}
	v.types("echo again-$A\n")
	v.shows("again-kept")
	if strings.Contains(v.seen.String(), "first-2") {
		t.Errorf("it shows again %q", v.seen.String())
	}
	_ = v.conn.CloseNow()
	absent := "sandboxes/" + id + "/sessions/none/terminal"
	c, _, err := dial(w, keyAnn, absent, "")
	w.OK(err)
	defer c.CloseNow()
	gone := &viewer{World: w, conn: c}
	if text, status := gone.last(); !strings.Contains(text, "notFound") || status != 4000 {
		t.Errorf("no session: %q, %d", text, status)
	}
}

// A job's output is had in parts, and files as a process inside has them.
func TestJobsAndFiles(t *testing.T) {
	w := newWorld(t)
	id := box(w)
	at := "sandboxes/" + id
	type job struct {
		Job struct{ ID, State, Session string }
	}
	j := post[job](w, keyAnn, at+"/jobs", m{"name": "j", "command": "printf 'one\\ntwo\\n'; printf x >made; sleep 600"}).Job
	type output struct {
		Stdout struct {
			Text      string
			Next, End uint64
		}
	}
	out := output{}
	for out.Stdout.End < 8 && w.Ctx.Err() == nil {
		out = get[output](w, keyAnn, at+"/jobs/output?session="+j.Session+"&job="+j.ID+"&stdout=4")
	}
	if out.Stdout.Text != "two\n" || out.Stdout.Next != 8 {
		t.Errorf("the output is %+v", out)
	}
	if all := get[struct {
		Jobs []struct{ Name, State string }
	}](w, keyAnn, at+"/jobs").Jobs; len(all) != 1 || all[0].Name != "j" {
		t.Errorf("the jobs are %+v", all)
	}
	list := get[struct{ Entries []struct{ Name, Type string } }](w, keyAnn, at+"/files")
	if len(list.Entries) != 1 || list.Entries[0].Name != "made" {
		t.Errorf("the files are %+v", list)
	}
	if got := get[struct{ Text string }](w, keyAnn, at+"/file?path=made"); got.Text != "x" {
		t.Errorf("the file is %+v", got)
	}
	if res, text := request(w, keyAnn, at+"/download?path=made", nil); string(text) != "x" || !strings.HasPrefix(res.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("the download is %q, %v", text, res.Header)
	}
	refused(w, keyAnn, at+"/file?path=secret", nil, 404, "notFound")
	post[m](w, keyAnn, at+"/jobs/signal", m{"session": j.Session, "job": j.ID, "signal": "KILL"})
	refused(w, keyAnn, at+"/jobs/signal", m{"session": j.Session, "job": j.ID, "signal": "NONE"}, 400, "invalid")
}

// What runs is in the list of sandboxes, as text.
func TestRunning(t *testing.T) {
	w := newWorld(t)
	id := box(w)
	news := events(w, keyAnn)
	news.until("hello", id)
	post[m](w, keyAnn, "sandboxes/"+id+"/jobs", m{"command": "exec -a '<b>busy' sleep 600"})
	news.until("sandbox", `\u003cb\u003ebusy 600`)
	all := get[struct {
		History map[string][]struct{ Memory *int64 }
	}](w, keyAnn, "history?points=3").History
	if got := all[id]; len(got) == 0 || len(got) > 3 || got[len(got)-1].Memory == nil || *got[len(got)-1].Memory == 0 {
		t.Errorf("the history is %+v", got)
	}
	if others := get[m](w, keyBob, "history"); len(others["history"].(m)) != 0 {
		t.Errorf("bob's history is %v", others)
	}
}
