package runtimes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/testutil"
)

func TestMissingNsys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := func(under string) string {
		file := filepath.Join(dir, under, "nsys")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		testutil.WriteProgram(t, file, "#!/bin/sh\n")
		return file
	}
	whole, copied := program("nsight-systems/2025.5.1"), program("nsight-compute/2025.3.1/host/target-linux-x64")
	link := filepath.Join(dir, "nsys")
	if err := os.Symlink(copied, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		nsys    string // "" means no trace block
		asked   cty.Value
		env     map[string]string
		missing string
	}{
		{whole, cty.True, nil, ""},
		{link, cty.True, nil, "nsight-compute/2025.3.1/host/target-linux-x64/nsys is the copy inside of Nsight Compute"},
		{dir + "/none", cty.True, nil, dir + "/none is not on this machine"},
		{"no-such-nsys", cty.True, nil, "no-such-nsys is not on this machine"},
		{"no-such-nsys", cty.True, map[string]string{"PATH": "/opt/bin"}, ""},
		{"bin/nsys", cty.True, nil, ""},
		{"/opt/{version}/nsys", cty.True, nil, ""},
		{"no-such-nsys", cty.False, nil, ""},
		{"no-such-nsys", cty.NullVal(cty.Bool), nil, ""},
		{"no-such-nsys", cty.UnknownVal(cty.Bool), nil, ""},
	} {
		rt := &stage.Runtime{Env: c.env, Options: map[string]cty.Value{
			"profiler": cty.ObjectVal(map[string]cty.Value{"nsys": cty.ListVal([]cty.Value{cty.StringVal(c.nsys),
				cty.StringVal("profile")})}),
		}}
		got := missingNsys(rt, map[string]cty.Value{"trace": cty.ObjectVal(map[string]cty.Value{"nsys": c.asked})})
		if (got == "") != (c.missing == "") || !strings.Contains(got, c.missing) {
			t.Errorf("%s, %#v: %q, want %q", c.nsys, c.asked, got, c.missing)
		}
	}
	if got := missingNsys(&stage.Runtime{}, nil); got != "" {
		t.Errorf("without a trace block: %q", got)
	}
}
