package dl

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	lists := func(variables ...string) (out []string) {
		for _, v := range variables {
			out = append(out, filepath.SplitList(env(v))...)
		}
		return slices.DeleteFunc(out, func(dir string) bool { return dir == "" })
	}
	expand := func(patterns ...string) []string {
		found, err := glob(filepath.Join(patterns...))
		if err != nil {
			return nil
		}
		// Highest version first: python3.12 before python3.11, cuda-13.0 before cuda-12.9.
		slices.SortStableFunc(found, func(a, b string) int { return strings.Compare(aligned(b), aligned(a)) })
		return found
	}

	roots := lists("VIRTUAL_ENV", "CONDA_PREFIX")
	for _, d := range lists("PATH") {
		for _, py := range expand(d, "python3") {
			roots = append(roots, filepath.Dir(filepath.Dir(py)))
			if r, err := real(py); err == nil {
				roots = append(roots, filepath.Dir(filepath.Dir(r)))
			}
		}
	}

	site := lists("PYTHONPATH")
	for _, r := range roots {
		site = slices.Concat(site, expand(r, "lib", "python3*", "site-packages"),
			expand(r, "lib", "python3*", "dist-packages"), expand(r, "local", "lib", "python3*", "dist-packages"))
	}

	return Places{
		First: distinct(lists("AICPLAN_LIBRARY_PATH", "LD_LIBRARY_PATH")), Site: distinct(site),
		Last: slices.Concat([]string{"/usr/local/nvidia/lib64", "/usr/local/cuda/lib64"},
			expand("/usr/local/cuda-*/lib64"), expand("/usr/lib/*-linux-gnu")),
	}
}

func distinct(in []string) (out []string) {
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

var digits = regexp.MustCompile(`\d+`)

// aligned returns a name with numbers of one width, so that its order as text is that of the numbers.
func aligned(name string) string {
	return digits.ReplaceAllStringFunc(name, func(n string) string { return fmt.Sprintf("%8s", n) })
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
