package boot

import (
	"errors"
	"strings"
	"testing"

	"wolffia/runtime"
)

// The last packet of a peer arrives, also if the peer has ended with packets unread: the
// keeper's report, when the shim has asked it to end meanwhile.
func TestLastPacketOfAPeerThatHasEnded(t *testing.T) {
	ours, theirs, err := ControlPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	err = errors.Join(SendPacket(ours, struct{}{}, nil), SendPacket(theirs, Report{Step: "last"}, nil), theirs.Close())
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, MaxPacket)
	if got, _, err := ReceivePacket(ours, buf); !strings.Contains(string(got), "last") {
		t.Errorf(`ReceivePacket: got %q, err %v; want got contains "last"`, got, err)
	}
	if got, _, err := ReceivePacket(ours, buf); len(got) != 0 || err != nil {
		t.Errorf("then %q, %v, want a hang-up", got, err)
	}
}

// A tree server refuses rules that say more than it knows.
func TestRulesOfANewerVersion(t *testing.T) {
	if got, err := ParseRules([]byte(`[{"pattern":"a","level":"none","hardlinks":true}]`)); !errors.Is(err, runtime.ErrUnsupported) {
		t.Errorf("ParseRules: got %v, err %v; want err is runtime.ErrUnsupported", got, err)
	}
}
