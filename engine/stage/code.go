package stage

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"sync"
)

// CodeOf returns a digest of the code of packages, made from their embedded Go files without tests, for Kind.Code.
// Data that is computed from stored rows is computed again if its code changes, without a version that a developer
// must remember.
func CodeOf(packages ...embed.FS) func() string {
	return sync.OnceValue(func() string {
		h := sha256.New()
		// Reading embedded files does not fail.
		for i, p := range packages {
			_ = fs.WalkDir(p, ".", func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
					return err
				}
				data, err := p.ReadFile(path)
				fmt.Fprintf(h, "%d %s %d\n", i, path, len(data))
				h.Write(data)
				return err
			})
		}

		return hex.EncodeToString(h.Sum(nil)[:8])
	})
}
