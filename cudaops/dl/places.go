package dl

import (
	"bufio"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// Places are the folders that Open searches.
type Places struct {
	First []string // set by the user, searched first
	Site  []string // site-packages folders of Python environments
	Last  []string // searched after the loader's default path
}

// DefaultPlaces returns the places from the environment of this process: AICPLAN_LIBRARY_PATH and
// LD_LIBRARY_PATH, the Python environments that are active or on PATH, and the toolkits under /usr/local.
func DefaultPlaces() Places {
	return placesFrom(os.Getenv, filepath.Glob, filepath.EvalSymlinks)
}

func placesFrom(env func(string) string, glob func(string) ([]string, error),
	real func(string) (string, error)) Places {
	var p Places
	for _, v := range []string{"AICPLAN_LIBRARY_PATH", "LD_LIBRARY_PATH"} {
		for _, d := range filepath.SplitList(env(v)) {
			if d != "" {
				p.First = append(p.First, d)
			}
		}
	}

	p.First = distinct(p.First)

	expand := func(pattern string) []string {
		m, err := glob(pattern)
		if err != nil {
			return nil
		}
		// Highest version first: python3.12 before python3.11, cuda-13.0 before cuda-12.9.
		sort.SliceStable(m, func(i, j int) bool { return natural(m[j], m[i]) })
		return m
	}

	var roots []string
	for _, v := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if d := env(v); d != "" {
			roots = append(roots, d)
		}
	}

	for _, d := range filepath.SplitList(env("PATH")) {
		if d == "" {
			continue
		}
		for _, py := range expand(filepath.Join(d, "python3")) {
			roots = append(roots, filepath.Dir(filepath.Dir(py)))
			if r, err := real(py); err == nil {
				roots = append(roots, filepath.Dir(filepath.Dir(r)))
			}
		}
	}

	for _, d := range filepath.SplitList(env("PYTHONPATH")) {
		if d != "" {
			p.Site = append(p.Site, d)
		}
	}

	for _, r := range distinct(roots) {
		p.Site = append(p.Site, expand(filepath.Join(r, "lib", "python3*", "site-packages"))...)
		p.Site = append(p.Site, expand(filepath.Join(r, "lib", "python3*", "dist-packages"))...)
		p.Site = append(p.Site, expand(filepath.Join(r, "local", "lib", "python3*", "dist-packages"))...)
	}

	p.Site = distinct(p.Site)

	p.Last = append(p.Last, "/usr/local/nvidia/lib64", "/usr/local/cuda/lib64")
	p.Last = append(p.Last, expand("/usr/local/cuda-*/lib64")...)
	p.Last = append(p.Last, expand("/usr/lib/*-linux-gnu")...)
	p.Last = distinct(p.Last)

	return p
}

func distinct(in []string) []string {
	seen := map[string]bool{}
	out := in[:0:0]

	for _, s := range in {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// natural compares names such that sequences of digits are compared as numbers.
func natural(a, b string) bool {
	for a != "" && b != "" {
		da, db := digits(a), digits(b)
		if da != "" && db != "" {
			na, nb := strings.TrimLeft(da, "0"), strings.TrimLeft(db, "0")
			if len(na) != len(nb) {
				return len(na) < len(nb)
			}
			if na != nb {
				return na < nb
			}
			a, b = a[len(da):], b[len(db):]
			continue
		}

		if a[0] != b[0] {
			return a[0] < b[0]
		}

		a, b = a[1:], b[1:]
	}

	return a == "" && b != ""
}

func digits(s string) string {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return s[:i]
}

// mappedPath returns the file of a mapped library whose base name is soname or a longer version of it,
// according to /proc/self/maps. It returns "" if unknown.
func mappedPath(soname string) string {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return ""
	}
	defer f.Close()
	return findMapped(bufio.NewScanner(f), soname)
}

func findMapped(sc *bufio.Scanner, soname string) string {
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		i := strings.IndexByte(sc.Text(), '/')
		if i < 0 {
			continue
		}
		path := sc.Text()[i:]
		base := filepath.Base(path)
		// The loader maps the target of the soname's symbolic link, for example libcuda.so.580.159.03 for
		// libcuda.so.1.
		stem := strings.TrimRight(soname, ".0123456789")
		if base == soname || strings.HasPrefix(base, soname+".") || strings.HasPrefix(base, stem+".") {
			return path
		}
	}

	return ""
}
