package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// damages hurt files of a finished state folder, one file a trial.
func damages() []*fault {
	hurt := func(how func(t *trial, data []byte) []byte) func(*trial) {
		return func(t *trial) {
			applied(t)
			files := t.files(".aicplan")
			path := files[t.random.IntN(len(files))]
			data, err := os.ReadFile(path)
			if err != nil {
				t.wrong("%v", err)
				return
			}
			if rel, err := filepath.Rel(t.state(), path); err == nil {
				t.note = strings.SplitN(filepath.ToSlash(rel), "/", 2)[0]
			}
			data = how(t, data)
			if data == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, data, 0o644)
			}
			if err != nil {
				t.wrong("%v", err)
			}
			t.recover(true)
		}
	}
	return []*fault{
		{name: "bits flipped in a state file", do: hurt(func(t *trial, data []byte) []byte {
			for range 1 + t.random.IntN(4) {
				if len(data) > 0 {
					data[t.random.IntN(len(data))] ^= 1 << t.random.IntN(8)
				}
			}
			return data
		})},
		{name: "a state file cut", do: hurt(func(t *trial, data []byte) []byte { return data[:t.random.IntN(len(data)+1)] })},
		{name: "a state file emptied", do: hurt(func(*trial, []byte) []byte { return []byte{} })},
		{name: "a state file deleted", do: hurt(func(*trial, []byte) []byte { return nil })},
		{name: "a state file full of noise", do: hurt(func(t *trial, data []byte) []byte {
			for i := range data {
				data[i] = byte(t.random.Uint32())
			}
			return data
		})},
		{name: "a journal cut in its last frames", do: tornJournal},
		{name: "a journal copied", do: copiedJournal},
		{name: "foreign files in every folder of the state", do: foreignFiles},
	}
}

// tornJournal is what a power cut leaves: the last write is there in part. What
// the file system had promised to keep is whole.
func tornJournal(t *trial) {
	r := t.start("apply", "plan.hcl")
	r.afterJournal()
	r.signal(9, true)
	r.wait()
	for _, path := range t.files(".aicplan/journal") {
		if strings.HasSuffix(path, ".seg") && t.random.IntN(2) == 0 {
			junk := make([]byte, t.random.IntN(300))
			for i := range junk {
				junk[i] = byte(t.random.Uint32())
			}
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.Write(junk)
				f.Close()
			}
			if err != nil {
				t.wrong("%v", err)
			}
		}
	}
	t.recover(true)
	if t.lost > 0 {
		t.wrong("%d acknowledged rows were measured again", t.lost)
	}
}

func copiedJournal(t *trial) {
	applied(t)
	for i, path := range t.files(".aicplan/journal") {
		if strings.HasSuffix(path, ".seg") {
			data, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(filepath.Join(filepath.Dir(path), fmt.Sprintf("%08d-%08x.seg", 90000000+i, i)), data, 0o644)
			}
			if err != nil {
				t.wrong("%v", err)
			}
		}
	}
	t.recover(false)
}

func foreignFiles(t *trial) {
	applied(t)
	dirs := map[string]bool{}
	for _, path := range t.files(".aicplan") {
		dirs[filepath.Dir(path)] = true
	}
	for dir := range dirs {
		for _, name := range []string{".nfs0001", ".DS_Store", "notes.txt"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("not of aicplan"), 0o644); err != nil {
				t.wrong("%v", err)
			}
		}
	}
	if out, code := t.status("ckpt", "list"); code != 0 {
		t.wrong("ckpt list ends with %d: %s", code, clip(out))
	}
	t.recover(false)
}

// controls are faults that must be caught: they show that the harness sees what
// it looks for.
func controls() []*fault {
	return []*fault{
		{name: "control: an acknowledged segment is deleted (must be caught)", do: func(t *trial) {
			applied(t)
			for _, path := range t.files(".aicplan/journal", ".aicplan/stages") {
				_ = os.Remove(path)
			}
			t.mustFail(func(c *trial) { c.acked = cases; c.check() })
		}},
		{name: "control: acknowledged rows are measured again (must be caught)", do: func(t *trial) {
			applied(t)
			t.mustFail(func(c *trial) {
				before := c.rows()
				c.status(c.words("-replace", "collect.g")...)
				if n := c.again(before); n == len(before) {
					c.wrong("%d rows were measured again", n)
				}
			})
		}},
		{name: "control: a power cut loses what was not synced (must be caught)", do: cutsLose},
		{name: "control: an export with one other byte (must be caught)", do: func(t *trial) {
			applied(t)
			f, err := os.OpenFile(filepath.Join(t.dir, "out", "g_perf.txt"), os.O_RDWR, 0)
			if err != nil {
				t.wrong("%v", err)
				return
			}
			var b [1]byte
			if _, err := f.ReadAt(b[:], 100); err != nil && err != io.EOF {
				t.wrong("%v", err)
			}
			b[0] ^= 1
			_, _ = f.WriteAt(b[:], 100)
			f.Close()
			if t.exports() == t.scene.want {
				t.wrong("the change was not seen")
			}
			t.sameBytes = true
		}},
	}
}

// mustFail holds that the checks of a copy of the trial find something.
func (t *trial) mustFail(do func(*trial)) {
	c := *t
	c.bad = nil
	do(&c)
	if c.survived() {
		t.wrong("the loss was not seen")
	}
	t.sameBytes = true
}

// check applies once and counts what was acknowledged and is measured again.
func (t *trial) check() {
	out, _ := t.apply()
	if m := summary.FindStringSubmatch(out); m != nil && m[1] != "0" {
		t.wrong("%s rows were measured again", m[1])
	}
}
