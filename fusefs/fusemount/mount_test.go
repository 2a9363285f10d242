package fusemount

import "testing"

func TestMountData(t *testing.T) {
	for _, tt := range []struct {
		opts MountOptions
		want string
	}{
		{MountOptions{}, "fd=3,rootmode=40755,user_id=7,group_id=8,default_permissions"},
		{MountOptions{AllowOther: true}, "fd=3,rootmode=40755,user_id=7,group_id=8,default_permissions,allow_other"},
	} {
		if got := mountData(3, 7, 8, &tt.opts); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.opts, got, tt.want)
		}
	}
}
