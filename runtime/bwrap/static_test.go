package bwrap_test

import (
	"testing"

	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testenv"
)

func TestStatic(t *testing.T) {
	testenv.Both(t)
	need(t)
	shimtest.Static(t, backend)
}
