package runbook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParse checks that parsing returns servers or an error with a position.
func FuzzParse(f *testing.F) {
	page, err := os.ReadFile("testdata/servers.md")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(page)
	f.Add([]byte("<!-- setup-x-endpoint-server weight=\"3 a=' -->\n```bash\ntrue\n"))
	f.Add([]byte("<!-- setup-x-endpoint-server -->\n~~~~bash\n```\n~~~~\n<!-- /setup-x-endpoint-server -->\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "p.md"), text, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Parse([]string{filepath.Join(dir, "p.md")}); err != nil && !strings.Contains(err.Error(), "p.md") {
			t.Errorf("an error without a place: %v", err)
		}
	})
}
