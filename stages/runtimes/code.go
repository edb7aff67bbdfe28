package runtimes

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
)

// Code is the code that an op is measured with: files of the plan and its checkouts, and installed
// distributions. Workers report it when they have loaded the op.
type Code struct {
	// Name is the file name of the op, without its folder.
	Name string `json:"name"`
	// Entry is a digest of the files of the op. If it differs, Files are not those that the op imports now.
	Entry string `json:"entry"`
	// Files are the files of the op and those that they import.
	Files []CodeFile `json:"files,omitempty"`
	// Packages maps distributions that the files import, and those that they require, to versions. Modules that
	// the files import and that are not installed have the version absent.
	Packages map[string]string `json:"packages,omitempty"`
}

// absent is the version of a module or distribution that is not there, also in answers of interpreters.
const absent = "none"

// CodeFile is one file of a Code.
type CodeFile struct {
	// Name is the path relative to the folder that the module was found in.
	Name string `json:"name"`
	// Module is the name by which the file is imported. It is empty for the files of the op.
	Module string `json:"module,omitempty"`
	Path   string `json:"path"`
	// Digest is the start of the hexadecimal SHA-256 of the file, for Python source without comments.
	Digest string `json:"digest"`
	// SHA256 is that of all bytes, in hex. It is empty if the file is not on this machine.
	SHA256 string `json:"-"`
}

// entry reports whether the file is one of the op.
func (f CodeFile) entry() bool { return f.Module == "" }

// String returns the format for journals: the name and a digest of the names and contents of the files.
func (c *Code) String() string {
	lines := make([]string, len(c.Files))
	for i, f := range c.Files {
		lines[i] = f.Name + " " + f.Digest + "\n"
	}
	slices.Sort(lines)
	return c.Name + " " + shortSum([]byte(strings.Join(slices.Compact(lines), "")))
}

// Entry is where the code of an op begins.
type Entry struct {
	// Files are the files of the op. They are empty for functions of installed modules.
	Files []string
	// Roots are the folders that imports are searched in, in order.
	Roots []string
}

// ChangedError reports a file that is not the one that the plan was made with.
type ChangedError struct{ Path string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s has changed since the plan was made", e.Path)
}

// CodeNow returns the code that a worker will import: the files of the entry as they are now, and the
// modules that workers have reported for the same files, which are read again. recorded returns the code that
// was recorded for a digest of the entry, or nil. The result is what was recorded if the entry is not on this
// machine. python is the version of the interpreter.
func CodeNow(e Entry, recorded func(entry string) *Code, python string) *Code {
	c := e.code()
	before := recorded(c.Entry)
	if len(c.Files) == 0 && before != nil && slices.ContainsFunc(before.Files, CodeFile.entry) {
		return before
	}
	if before == nil || len(e.Files) > 0 && before.Entry != c.Entry {
		return c
	}

	c.Packages = map[string]string{}
	maps.Copy(c.Packages, before.Packages)
	known := map[string]bool{}
	for _, f := range before.Files {
		known[f.Module] = true
	}

	for _, f := range before.Files {
		if f.entry() {
			continue
		}

		path := e.find(f, python)
		switch {
		case c.add(e, CodeFile{Module: f.Module, Path: path}):
		case !isDir(filepath.Dir(path)):
			c.Files = append(c.Files, f) // it is on another machine
		case !strings.Contains(f.Module, "."):
			c.Packages[f.Module] = absent
		}
		// A folder without __init__.py is a package until there is a module of its name.
		dir := strings.TrimSuffix(filepath.ToSlash(path), "/__init__.py")
		for m := f.Module; strings.Contains(m, "."); {
			m, dir = m[:strings.LastIndex(m, ".")], filepath.Dir(dir)
			if !known[m] {
				known[m] = true
				parent := CodeFile{Module: m, Path: filepath.Join(dir, "__init__.py")}
				c.add(e, CodeFile{Module: m, Path: e.find(parent, python)})
			}
		}
	}

	for name, version := range before.Packages {
		if path := e.find(CodeFile{Module: name}, python); version == absent && path != "" && !known[name] {
			delete(c.Packages, name)
			c.add(e, CodeFile{Module: name, Path: path})
		}
	}
	return c
}

// CodeReported returns the code that a worker has reported. The error is a *ChangedError if the worker has
// imported another content than a file has now.
func CodeReported(e Entry, report *worker.Code) (*Code, error) {
	c := e.code()
	c.Packages = maps.Clone(report.Packages)
	for _, f := range report.Files {
		if own := c.file(f.Path); own != nil {
			if own.SHA256 != f.SHA256 {
				return nil, &ChangedError{f.Path}
			}
			continue
		}

		file := CodeFile{Module: f.Module, Path: f.Path}
		switch {
		case !c.add(e, file):
			file.Name, file.Digest, file.SHA256 = e.name(file), f.SHA256[:min(16, len(f.SHA256))], f.SHA256
			c.Files = append(c.Files, file)
		case c.Files[len(c.Files)-1].SHA256 != f.SHA256:
			return nil, &ChangedError{f.Path}
		}
	}

	if c.Name == "" && len(c.Files) > 0 {
		c.Name = filepath.Base(c.Files[0].Path)
	}
	return c, nil
}

// file returns the file with a path, or nil.
func (c *Code) file(path string) *CodeFile {
	for i := range c.Files {
		if c.Files[i].Path == path {
			return &c.Files[i]
		}
	}
	return nil
}

// Add adds the files and distributions of other that c lacks.
func (c *Code) Add(other *Code) {
	for _, f := range other.Files {
		if c.file(f.Path) == nil {
			c.Files = append(c.Files, f)
		}
	}

	for name, version := range other.Packages {
		if c.Packages == nil {
			c.Packages = map[string]string{}
		}
		c.Packages[name] = cmp.Or(c.Packages[name], version)
	}
}

// Union returns the files and distributions of both. The error is a *ChangedError if one of them differs.
func (c *Code) Union(other *Code) (*Code, error) {
	for _, f := range other.Files {
		if own := c.file(f.Path); own != nil && own.Digest != f.Digest {
			return nil, &ChangedError{f.Path}
		}
	}
	if _, err := c.covers(other.Packages); err != nil {
		return nil, err
	}

	u := *c
	u.Files, u.Packages = slices.Clone(c.Files), maps.Clone(c.Packages)
	u.Add(other)
	return &u, nil
}

// Covers returns an error if a worker has imported other code than c. It is a *ChangedError if a file or a
// distribution differs. Code that c lacks sets more.
func (c *Code) Covers(report *worker.Code) (more bool, err error) {
	for _, f := range report.Files {
		switch own := c.file(f.Path); {
		case own == nil:
			more = true
		case own.SHA256 != f.SHA256:
			return false, &ChangedError{f.Path}
		}
	}

	others, err := c.covers(report.Packages)
	return more || others, err
}

// covers returns a *ChangedError if a distribution has another version. Distributions that c lacks set more.
func (c *Code) covers(packages map[string]string) (more bool, err error) {
	for name, version := range packages {
		switch known, ok := c.Packages[name]; {
		case !ok:
			more = true
		case known != version:
			return false, &ChangedError{fmt.Sprintf("the distribution %s (%s, now %s)", name, known, version)}
		}
	}
	return more, nil
}

// code returns the code of the entry's files alone.
func (e Entry) code() *Code {
	c := &Code{}
	for _, path := range e.Files {
		c.add(e, CodeFile{Path: path})
	}
	if len(c.Files) > 0 {
		c.Entry = c.String()
	}
	return c
}

// add reads a file and adds it. It returns false if the file cannot be read.
func (c *Code) add(e Entry, f CodeFile) bool {
	text, ok := readText(f.Path)
	if !ok {
		return false
	}
	f.Name, f.Digest, f.SHA256 = e.name(f), text.digest, text.sha
	if c.Name == "" {
		c.Name = filepath.Base(f.Path)
	}
	c.Files = append(c.Files, f)
	return true
}

// name returns the path of a file relative to its root, because a checkout or folder may be moved.
func (e Entry) name(f CodeFile) string {
	best := strings.ReplaceAll(f.Module, ".", "/")
	if best == "" {
		best = filepath.Base(f.Path)
	}
	for _, root := range e.Roots {
		if rel, err := filepath.Rel(root, f.Path); err == nil && filepath.IsLocal(rel) && len(rel) >= len(best) {
			best = filepath.ToSlash(rel)
		}
	}
	return best
}

// find returns the file that an import of a recorded module finds now. A root that comes first wins, as in
// Python's search.
func (e Entry) find(f CodeFile, python string) string {
	for _, root := range e.Roots {
		at := filepath.Join(root, filepath.Join(strings.Split(f.Module, ".")...))
		names := []string{filepath.Join(at, "__init__.py")}
		if minor := strings.Split(python, "."); len(minor) > 1 {
			pattern := filepath.Base(at) + ".cpython-" + minor[0] + minor[1] + "-*.so"
			built, _ := fileutil.Glob(filepath.Dir(at), pattern) // the pattern is valid
			names = append(names, built...)
		}
		for _, name := range append(names, at+".abi3.so", at+".so", at+".py", at+".pyc") {
			if isFile(name) {
				return name
			}
		}
	}
	return f.Path
}

// CodeKey returns the key of an op in Environment.Code.
func CodeKey(rt *stage.Runtime, op string, bind any) string {
	raw, _ := json.Marshal([]any{bind, rt.Path, rt.CollectorRoot}) // a binding has values of JSON only
	return op + " " + shortSum(raw)
}

// texts caches the digests of files by path until they change. The collectors of a plan share most imports.
var texts sync.Map

type text struct {
	info        os.FileInfo
	digest, sha string
}

// settled is the age of a modification time after which it identifies the content of a file. A younger file
// may be written again within the resolution of the time.
const settled = 2 * time.Second

func readText(path string) (text, bool) {
	t, err := sumOf(path)
	if err != nil || t.digest != "" {
		return t, err == nil
	}

	t.digest = t.sha[:16]
	if strings.HasSuffix(path, ".py") {
		data, err := fileutil.ReadText(path)
		if err != nil {
			return text{}, false
		}
		t.digest = shortSum([]byte(withoutComments(string(data))))
	}
	texts.Store(path, t)
	return t, true
}

// FileSum returns the SHA-256 of a regular file in hex. It reads the file only if the file has changed.
func FileSum(path string) (string, error) {
	t, err := sumOf(path)
	return t.sha, err
}

// sumOf returns what is known of a regular file, with its SHA-256.
func sumOf(path string) (text, error) {
	info, err := os.Stat(path)
	if err != nil {
		return text{}, err
	}
	if !info.Mode().IsRegular() {
		return text{}, fmt.Errorf("%s is not a regular file", path)
	}

	if known, ok := texts.Load(path); ok {
		k := known.(text)
		before := k.info.ModTime()
		if k.info.Size() == info.Size() && before.Equal(info.ModTime()) && time.Since(before) > settled &&
			os.SameFile(k.info, info) {
			return k, nil
		}
	}

	f, err := fileutil.Open(path)
	if err != nil {
		return text{}, err
	}
	defer f.Close()

	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return text{}, fmt.Errorf("%s: %w", path, err)
	}
	t := text{info: info, sha: hex.EncodeToString(h.Sum(nil))}
	texts.Store(path, t)
	return t, nil
}

// withoutComments returns Python code without comments, blank lines and spaces at the end of lines. They do
// not change what is measured.
func withoutComments(code string) string {
	code = strings.ReplaceAll(strings.ReplaceAll(code, "\r\n", "\n"), "\r", "\n")
	var out, line strings.Builder
	end := func() {
		if text := strings.TrimRight(line.String(), " \t\f"); text != "" {
			out.WriteString(text + "\n")
		}
		line.Reset()
	}

	for i := 0; i < len(code); {
		n := 1
		switch c := code[i]; c {
		case '#':
			n = cmp.Or(strings.IndexByte(code[i:], '\n')+1, len(code)-i+1) - 1
		case '\n':
			end()
		case '"', '\'':
			n = stringEnd(code[i:])
			line.WriteString(code[i : i+n])
		default:
			line.WriteByte(c)
		}
		i += n
	}

	end()
	return out.String()
}

// stringEnd returns the length of the string literal at the start of text, without its prefix. An
// unterminated literal ends at the end of the line, or of the text if it has triple quotes.
func stringEnd(text string) int {
	quote := text[:1]
	if strings.HasPrefix(text, strings.Repeat(quote, 3)) {
		quote = text[:3]
	}

	for i := len(quote); i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote)
		case text[i] == '\n' && len(quote) == 1:
			return i
		}
	}
	return len(text)
}

func shortSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// packagesOf returns the names of all distributions of some code, sorted.
func packagesOf(code map[string]*Code) []string {
	all := map[string]bool{}
	for _, c := range code {
		for name := range c.Packages {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Changed returns a *ChangedError if a file on this machine is not the one that was read, and nil otherwise.
func (c *Code) Changed() error {
	for _, f := range c.Files {
		if f.SHA256 == "" {
			continue
		}
		if now, ok := readText(f.Path); !ok || now.sha != f.SHA256 {
			return &ChangedError{f.Path}
		}
	}
	return nil
}

// Normal returns the normalized name of a distribution (PEP 503).
func Normal(distribution string) string {
	return strings.ToLower(separators.ReplaceAllString(distribution, "-"))
}

var separators = regexp.MustCompile(`[-_.]+`)
