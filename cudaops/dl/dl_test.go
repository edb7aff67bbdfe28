package dl

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

func TestOpenOrder(t *testing.T) {
	dir := t.TempDir()
	mk := func(parts ...string) string {
		p := filepath.Join(append([]string{dir}, parts...)...)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := mk("first", "libx.so.12")
	site := mk("site", "nvidia", "x", "lib", "libx.so.13")
	last := mk("last", "libx.so.13")
	spec := Spec{Name: "X", Sonames: []string{"libx.so.13", "libx.so.12"}, Packages: []string{"nvidia/x/lib"},
		Hint: "install X"}
	places := Places{First: []string{filepath.Dir(first)}, Site: []string{filepath.Join(dir, "site")},
		Last: []string{filepath.Dir(last)}}

	var tried []string
	broken := map[string]bool{}
	fake := func(path string, _ bool) (uintptr, error) {
		tried = append(tried, path)
		if broken[path] || !filepath.IsAbs(path) {
			return 0, errors.New("cannot open")
		}
		return 1, nil
	}
	for _, want := range []string{first, site, last} {
		lib, err := open(spec, places, fake)
		if err != nil {
			t.Fatal(err)
		}
		if lib.Path != want {
			t.Errorf("opened %s, want %s", lib.Path, want)
		}
		broken[want] = true
	}
	tried = nil
	_, err := open(spec, places, fake)
	if !IsNotFound(err) {
		t.Fatalf("error is %v, want a NotFoundError", err)
	}
	if want := []string{first, site, "libx.so.13", "libx.so.12", last}; !reflect.DeepEqual(tried, want) {
		t.Errorf("tried %q, want %q", tried, want)
	}
	for _, part := range []string{"X not found", "libx.so.13, libx.so.12", first + ": cannot open", filepath.Dir(last),
		"install X"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error lacks %q: %v", part, err)
		}
	}
}

func TestPlaces(t *testing.T) {
	env := map[string]string{
		"LD_LIBRARY_PATH": "/a:/b::/a",
		"VIRTUAL_ENV":     "/venv",
		"PATH":            "/venv/bin:/usr/bin",
		"PYTHONPATH":      "/mine",
	}
	globs := map[string][]string{
		"/venv/bin/python3":                   {"/venv/bin/python3"},
		"/usr/bin/python3":                    {"/usr/bin/python3"},
		"/venv/lib/python3*/site-packages":    {"/venv/lib/python3.9/site-packages", "/venv/lib/python3.12/site-packages"},
		"/usr/lib/python3*/dist-packages":     {"/usr/lib/python3/dist-packages"},
		"/usr/local/cuda-*/lib64":             {"/usr/local/cuda-12.9/lib64", "/usr/local/cuda-13.0/lib64"},
		"/opt/py/lib/python3*/site-packages":  {"/opt/py/lib/python3.12/site-packages"},
		"/usr/lib/*-linux-gnu":                nil,
		"/usr/lib/python3*/site-packages":     nil,
		"/venv/lib/python3*/dist-packages":    nil,
		"/venv/local/lib/python3*/dist-pacta": nil,
	}
	p := placesFrom(func(k string) string { return env[k] },
		func(g string) ([]string, error) { return append([]string(nil), globs[g]...), nil },
		func(s string) (string, error) {
			if s == "/venv/bin/python3" {
				return "/opt/py/bin/python3.12", nil
			}
			return s, nil
		})
	if want := []string{"/a", "/b"}; !reflect.DeepEqual(p.First, want) {
		t.Errorf("first %q, want %q", p.First, want)
	}
	want := []string{"/mine", "/venv/lib/python3.12/site-packages", "/venv/lib/python3.9/site-packages",
		"/opt/py/lib/python3.12/site-packages", "/usr/lib/python3/dist-packages"}
	if !reflect.DeepEqual(p.Site, want) {
		t.Errorf("site %q, want %q", p.Site, want)
	}
	if want := []string{"/usr/local/nvidia/lib64", "/usr/local/cuda/lib64", "/usr/local/cuda-13.0/lib64",
		"/usr/local/cuda-12.9/lib64"}; !reflect.DeepEqual(p.Last, want) {
		t.Errorf("last %q, want %q", p.Last, want)
	}
}

func TestFindMapped(t *testing.T) {
	const maps = `7f00-7f01 r-xp 00000000 08:01 1  /usr/lib/libcublas.so.13.1
7f00-7f01 r-xp 00000000 08:01 1  /usr/lib/libcuda.so.580.159.03
7f00-7f01 rw-p 00000000 00:00 0
7f00-7f01 r-xp 00000000 08:01 1  /py/lib/libcublasLt.so.13
`
	for soname, want := range map[string]string{
		"libcuda.so.1":      "/usr/lib/libcuda.so.580.159.03",
		"libcublasLt.so.13": "/py/lib/libcublasLt.so.13",
		"libnvrtc.so.13":    "",
	} {
		if got := findMapped(bufio.NewScanner(strings.NewReader(maps)), soname); got != want {
			t.Errorf("%s is mapped from %q, want %q", soname, got, want)
		}
	}
}

// TestCallLibc checks opening, binding and calling with libc, which every glibc system has.
func TestCallLibc(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks for glibc's soname")
	}
	lib, err := Open(Spec{Name: "libc", Sonames: []string{"libc.so.6"}})
	if err != nil {
		t.Skipf("no glibc here: %v", err)
	}
	var libc struct{ strlen, abs Symbol }
	if err := lib.BindStruct(&libc); err != nil {
		t.Fatal(err)
	}
	text := append([]byte("eleven char"), 0)
	if n := Call(libc.strlen.At, uintptr(unsafe.Pointer(&text[0]))); n != 11 {
		t.Errorf("strlen = %d, want 11", n)
	}
	minus := int32(-5)
	if n := int32(Call(libc.abs.At, uintptr(uint32(minus)))); n != 5 {
		t.Errorf("abs(-5) = %d", n)
	}
	if _, err := lib.Symbol("no_such_symbol_here"); err == nil || !strings.Contains(err.Error(), "no_such_symbol_here") {
		t.Errorf("error does not name the symbol: %v", err)
	}
}
