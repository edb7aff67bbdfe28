package textutil

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFolders(t *testing.T) {
	for _, c := range []struct {
		files []string
		want  []Folder
	}{
		{nil, nil},
		{[]string{"/out/a.csv", "/out/b.csv"}, []Folder{{"/out", 2}}},
		{[]string{"out/c1/x.json", "out/c1/d/y.json", "out/c2/x.json", "out/all.csv"},
			[]Folder{{"out/c1", 2}, {"out/c2", 1}, {"out", 1}}},
		{[]string{"a/x", "b/y"}, []Folder{{"a", 1}, {"b", 1}}},
	} {
		if diff := cmp.Diff(c.want, Folders(c.files)); diff != "" {
			t.Errorf("%q: %s", c.files, diff)
		}
	}
}
