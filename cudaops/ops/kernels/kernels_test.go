package kernels

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"aicplan/cudaops/dl"
	"aicplan/cudaops/nvrtc"
)

var update = flag.Bool("update", false, "write core.ptx with the NVRTC at hand")

// TestCorePTX compiles the sources for real where NVRTC is installed: it needs
// no GPU. With -update it writes the embedded PTX; use NVRTC 12.1 for that, so
// that old drivers accept it.
func TestCorePTX(t *testing.T) {
	l, err := nvrtc.Open(0)
	if dl.IsNotFound(err) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Compile(nvrtc.Program{Name: "core.cu", Source: Core, SM: 90}); err != nil {
		t.Fatal(err)
	}
	for _, opts := range [][]string{{"-DDTYPE=1", "-DFP8=1"}, {"-DDTYPE=2", "-DFP8=1"}, {"-DDTYPE=1", "-DFP8=0"}} {
		sm := 90
		if opts[1] == "-DFP8=0" {
			sm = 80
		}
		if _, err := l.Compile(nvrtc.Program{Name: "elementwise.cu", Source: Elementwise, SM: sm, Options: opts}); err != nil {
			t.Errorf("%v: %v", opts, err)
		}
	}
	if *update {
		ptx, err := l.Compile(nvrtc.Program{Name: "core.cu", Source: Core, SM: 70, PTX: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("core.ptx", bytes.TrimRight(ptx, "\x00"), 0o644); err != nil {
			t.Fatal(err)
		}
		CorePTX = ptx
	}
	for _, entry := range []string{"gate", "stamp", "spin", "null", "fill", "copy", "triad", "reduce"} {
		if !bytes.Contains(CorePTX, []byte(".entry aicplan_"+entry+"(")) {
			t.Errorf("core.ptx lacks aicplan_%s: run go generate", entry)
		}
	}
}
