"""PostgreSQL of an image, by testcontainers. Argument: the image."""

import sys

import pg8000.dbapi
from testcontainers.postgres import PostgresContainer

with PostgresContainer(sys.argv[1], username="u", password="secret", dbname="d") as box:
    host, port = box.get_container_host_ip(), int(box.get_exposed_port(5432))
    with pg8000.dbapi.connect(user="u", password="secret", database="d", host=host, port=port) as db:
        rows = db.cursor()
        rows.execute("CREATE TABLE t (n int, s text)")
        rows.execute("INSERT INTO t SELECT n, repeat('x', n) FROM generate_series(1, 1000) n")
        db.commit()
        rows.execute("SELECT count(*), sum(length(s)), split_part(version(), ' ', 2) FROM t")
        print(*rows.fetchone())
    try:
        pg8000.dbapi.connect(user="u", password="wrong", database="d", host=host, port=port)
    except pg8000.dbapi.DatabaseError as e:
        assert "password authentication failed" in str(e), e
        print("refused")
