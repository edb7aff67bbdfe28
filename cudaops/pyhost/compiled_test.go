package pyhost_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aicplan/cudaops/pyhost"
	"aicplan/cudaops/pyhost/pyhosttest"
)

// beginning starts a worker without descriptors in an environment of its own, and
// returns what it prints before it ends. A worker whose compiled code was changed
// prints another word.
func beginning(t *testing.T, host string, env ...string) string {
	t.Helper()
	cmd := exec.Command(python(t), "-u", host)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "aicplan worker: ") {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// codeIn is the only file of compiled code in a folder, "" where there is none.
func codeIn(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	code := ""
	for _, f := range files {
		switch {
		case strings.HasSuffix(f, ".pyz"):
		case strings.HasSuffix(f, ".code") && code == "":
			code = f
		default:
			t.Errorf("left in the folder: %v", files)
		}
	}
	return code
}

// exchanged changes a word of compiled code and has the file's sum fit, so that it
// shows whether a worker takes its code from there.
const exchanged = `
import importlib.util, marshal, sys
text = open(sys.argv[1], "rb").read()
def other(code):
    return code.replace(co_consts=tuple(
        other(c) if hasattr(c, "co_consts") else c.replace("are not open", "are shut") if isinstance(c, str) else c for c in code.co_consts))
modules = marshal.loads(text[20:])
modules["aicplan_host.loop"] = other(modules["aicplan_host.loop"])
body = marshal.dumps(modules)
open(sys.argv[1], "wb").write(text[:12] + importlib.util.source_hash(body) + body)
`

// TestTheHostIsCompiledOnce: workers take the host's code from the file that the
// first one has left, and from no other.
func TestTheHostIsCompiledOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	host, err := pyhost.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	const plain, changed = "are not open", "are shut"
	elsewhere := filepath.Join(t.TempDir(), "new")
	beginning(t, host, pyhosttest.Cache+"="+elsewhere)
	if codeIn(t, dir) != "" {
		t.Errorf("%s is not used", pyhosttest.Cache)
	}
	if got := beginning(t, host, "PYTHONDONTWRITEBYTECODE=1"); !strings.Contains(got, plain) || codeIn(t, dir) != "" {
		t.Errorf("bytecode is not wanted, and there is %q\n%s", codeIn(t, dir), got)
	}
	beginning(t, host)
	file := codeIn(t, dir)
	if (file == "") != (codeIn(t, elsewhere) == "") {
		t.Errorf("code in one place only: %q", file)
	}
	if file == "" {
		t.Skip("this Python reads zip files without asking for code (3.9)")
	}
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(python(t), "-c", exchanged, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := beginning(t, host); !strings.Contains(got, changed) {
		t.Errorf("the file is not used: %s", got)
	}

	// Another host under the same name.
	text, err := os.ReadFile(host)
	if err != nil {
		t.Fatal(err)
	}
	newer := bytes.ReplaceAll(text, []byte("not by hand"), []byte("never alone"))
	if err := os.WriteFile(host, newer, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := beginning(t, host); !strings.Contains(got, plain) || !strings.Contains(got, "never alone") {
		t.Errorf("code of another host: %s", got)
	}
	if err := os.WriteFile(host, text, 0o644); err != nil {
		t.Fatal(err)
	}

	// Damage is seen, and mended: in the head, in the code, and by a cut.
	for name, damaged := range map[string][]byte{
		"empty": {}, "cut": first[:len(first)/2], "short": first[:15],
		"magic": flipped(first, 0), "source": flipped(first, 5), "sum": flipped(first, 13),
		"code": flipped(first, len(first)-100),
	} {
		if err := os.WriteFile(file, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := beginning(t, host); !strings.Contains(got, plain) {
			t.Errorf("%s: %s", name, got)
		}
		if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now[:12], first[:12]) || len(now) != len(first) {
			t.Errorf("%s: the file is not written anew: %v", name, err)
		}
	}
}

func flipped(text []byte, i int) []byte {
	out := bytes.Clone(text)
	out[i] ^= 1
	return out
}
