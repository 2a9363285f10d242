package wire

import "testing"

func TestUmask(t *testing.T) {
	for mask, want := range map[uint32]int{0o022: 0o022, 0: 0, 0o077: 0o077, 0o002: 0o002, 0o777: 0o077, 0o7722: 0o022} {
		if got := UmaskOf(mask).Mask(); got != want {
			t.Errorf("umask %#o: %#o, want %#o", mask, got, want)
		}
	}
	if UmaskOf(0o022) != 0 {
		t.Error("022 is not the zero Umask")
	}
}
