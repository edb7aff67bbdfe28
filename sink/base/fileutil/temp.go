package fileutil

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// TempFolder is a folder for temporary files. Its process has a lock in it; a free lock
// means that the process was killed.
type TempFolder struct {
	Path string
	lock *os.File
}

// NewTempFolder creates a folder for temporary files of this process, in the folder of the
// user (see UserTempDir). It removes the folders of killed processes with the same name.
func NewTempFolder(name string) (*TempFolder, error) {
	base, shared, err := UserTempDir()
	if err != nil {
		return nil, err
	}
	if !shared {
		removeOldFolders(base, name+"-")
	}

	for {
		path, err := os.MkdirTemp(base, name+"-")
		if err != nil {
			return nil, err
		}
		f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process removed the folder before it was locked
		}
		if err != nil {
			return nil, err
		}
		// Without locks on the file system, no process removes the folder.
		if !errors.Is(tryLock(f), syscall.EWOULDBLOCK) && sameFile(f, f.Name()) {
			return &TempFolder{Path: path, lock: f}, nil
		}
		_ = f.Close()
	}
}

// Remove removes the folder and its content.
func (f *TempFolder) Remove() {
	_ = os.RemoveAll(f.Path)
	_ = f.lock.Close()
}

// UserTempDir returns the folder for temporary files of this user. Its mode is 0700, so that
// other users cannot create files or locks in it. If another user has created a folder of
// that name, UserTempDir returns the system's folder for temporary files, and shared is true.
func UserTempDir() (dir string, shared bool, err error) {
	dir = filepath.Join(os.TempDir(), fmt.Sprintf("aicplan-%d", os.Geteuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", false, Explain("make", dir, err)
	}

	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || !Owned(info) || info.Mode().Perm()&0o077 != 0 {
		return os.TempDir(), true, nil
	}
	return dir, false, nil
}

// Owned reports whether the user of this process owns a file.
func Owned(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(stat.Uid) == os.Geteuid()
}

// removeOldFolders removes the folders of killed processes. It follows no links.
func removeOldFolders(base, prefix string) {
	root, err := os.OpenRoot(base)
	if err != nil {
		return
	}
	defer root.Close()

	entries, _ := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.IsDir() || !strings.HasPrefix(e.Name(), prefix) || !Owned(info) {
			continue
		}

		// The lock is in the folder that was listed, not behind a link.
		lock, err := root.OpenFile(e.Name()+"/lock", os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			_ = root.Remove(e.Name()) // only if it is empty
			continue
		}
		if err != nil {
			continue
		}
		if tryLock(lock) == nil {
			_ = root.RemoveAll(e.Name())
		}
		_ = lock.Close()
	}
}
