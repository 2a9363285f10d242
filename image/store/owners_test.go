package store_test

import (
	"archive/tar"
	"bytes"
	"reflect"
	"testing"

	"wolffia/image/store"
	"wolffia/internal/test/testimage"
)

// layerOf returns a layer of these headers.
func layerOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What a layer says of owners, set-id bits and capabilities is recorded, of what the last layer
// has left.
func TestOwners(t *testing.T) {
	s, _ := fresh(t)
	const caps = "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	lower := layerOf(t,
		tar.Header{Name: "plain", Typeflag: tar.TypeReg, Mode: 0o644},
		tar.Header{Name: "su", Typeflag: tar.TypeReg, Mode: 0o4755},
		tar.Header{Name: "su2", Typeflag: tar.TypeLink, Linkname: "su"},
		tar.Header{Name: "plain2", Typeflag: tar.TypeLink, Linkname: "plain"},
		tar.Header{Name: "db/", Typeflag: tar.TypeDir, Mode: 0o700, Uid: 999, Gid: 998},
		tar.Header{Name: "db/gone", Typeflag: tar.TypeReg, Mode: 0o600, Uid: 999},
		tar.Header{Name: "db/\xff", Typeflag: tar.TypeReg, Mode: 0o600, Uid: 70000},
		tar.Header{Name: "old/", Typeflag: tar.TypeDir, Mode: 0o755, Uid: 7},
		tar.Header{Name: "mine", Typeflag: tar.TypeReg, Mode: 0o600, Uid: 5},
		tar.Header{Name: "ping", Typeflag: tar.TypeReg, Mode: 0o755, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": caps}},
		tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "x", Gid: 4, Mode: 0o777},
		tar.Header{Name: "device", Typeflag: tar.TypeChar, Uid: 3},
	)
	upper := layerOf(t,
		tar.Header{Name: "db/.wh.gone", Typeflag: tar.TypeReg},
		tar.Header{Name: ".wh.old", Typeflag: tar.TypeReg},
		tar.Header{Name: "old/implied", Typeflag: tar.TypeReg, Mode: 0o644},
		tar.Header{Name: "mine", Typeflag: tar.TypeReg, Mode: 0o600},
	)
	img, err := s.Add(t.Context(), testimage.Source(t, store.Config{}, lower, upper), store.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Owners(img.ID)
	want := []store.Owned{
		{Path: "db", UID: 999, GID: 998, Mode: 0o700},
		{Path64: []byte("db/\xff"), UID: 70000, Mode: 0o600},
		{Path: "link", GID: 4, Mode: 0o777},
		{Path: "ping", Mode: 0o755, Caps: []byte(caps)},
		{Path: "su", Mode: 0o4755},
		{Path: "su2", Mode: 0o4755},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Owners: got %+v, %v; want %+v", got, err, want)
	}
	if got, err := s.Owners(add(t, s, "", "x").ID); len(got) > 1 || err != nil {
		t.Error(got, err)
	}
}
