// Program testcontainers-go starts PostgreSQL of an image by testcontainers. Argument: the image.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"time"

	_ "github.com/lib/pq"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/exec"
	"github.com/testcontainers/testcontainers-go/wait"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	box, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		ContainerRequest: testcontainers.ContainerRequest{
			Image: os.Args[1], ExposedPorts: []string{"5432/tcp"},
			Env:        map[string]string{"POSTGRES_USER": "u", "POSTGRES_PASSWORD": "secret", "POSTGRES_DB": "d"},
			WaitingFor: wait.ForLog("database system is ready to accept connections").WithOccurrence(2),
		},
		Started: true,
	})
	check(err)
	address, err := box.PortEndpoint(ctx, "5432/tcp", "")
	check(err)
	db, err := sql.Open("postgres", "postgres://u:secret@"+address+"/d?sslmode=disable")
	check(err)
	var n int
	check(db.QueryRowContext(ctx, "SELECT sum(n) FROM generate_series(1, 100) n").Scan(&n))
	code, _, err := box.Exec(ctx, []string{"sh", "-c", "exit 3"}, exec.Multiplexed())
	check(err)
	check(db.Close())
	check(box.Terminate(ctx))
	fmt.Println(n, code)
}
