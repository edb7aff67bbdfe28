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

// CodeOf identifies the code of packages by their embedded Go files, tests left
// out, for Kind.Code: what follows from stored rows alone is made again when the
// code that makes it changes, without a version that somebody has to remember.
func CodeOf(packages ...embed.FS) func() string {
	return sync.OnceValue(func() string {
		h := sha256.New()
		for i, p := range packages {
			err := fs.WalkDir(p, ".", func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
					return err
				}
				data, err := p.ReadFile(path)
				fmt.Fprintf(h, "%d %s %d\n", i, path, len(data))
				h.Write(data)
				return err
			})
			if err != nil {
				panic(fmt.Sprintf("stage: embedded code: %v", err)) // it is part of the program
			}
		}
		return hex.EncodeToString(h.Sum(nil)[:8])
	})
}
