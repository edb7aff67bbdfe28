package resident

import (
	"bytes"
	"debug/elf"
	"os"
	"testing"
)

// TestFindsWhatNobodyWritesTo compares with the library that reads ELF files.
func TestFindsWhatNobodyWritesTo(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	var want []segment
	for _, p := range f.Progs {
		if f.Type != elf.ET_EXEC || p.Type != elf.PT_LOAD || p.Flags&elf.PF_W != 0 {
			continue
		}
		first, last := (p.Vaddr+pageBytes-1)/pageBytes*pageBytes, (p.Vaddr+p.Memsz)/pageBytes*pageBytes
		if last > first {
			want = append(want, segment{first, last - first})
		}
	}
	got := readOnly(raw[:4096])
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got, want)
		}
	}
	// Once more, in the middle of the work: nothing of the program is lost.
	trim("/proc/self/exe")
	if again := readOnly(raw[:4096]); len(again) != len(want) {
		t.Errorf("%v after the pages were dropped", again)
	}
}

func TestLeavesOtherFilesAlone(t *testing.T) {
	for _, b := range [][]byte{nil, []byte("#!/bin/sh\n"), bytes.Repeat([]byte{0xff}, 4096), append([]byte(magic), bytes.Repeat([]byte{0xff}, 90)...)} {
		if got := readOnly(b); got != nil {
			t.Errorf("%d bytes of something else: %v", len(b), got)
		}
	}
	trim("/proc/self/no-such-file")
}
