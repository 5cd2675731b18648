// pgjdbc: DatabaseMetaData, prepared statements, batches, COPY.
import java.sql.*;
import java.util.*;

public class Metadata {
    static List<String> all(ResultSet rows, String... names) throws SQLException {
        List<String> found = new ArrayList<>();
        while (rows.next()) {
            List<String> one = new ArrayList<>();
            for (String name : names) one.add(String.valueOf(rows.getString(name)));
            found.add(String.join("|", one));
        }
        return found;
    }

    static void same(Object found, Object wanted) {
        if (!String.valueOf(found).equals(String.valueOf(wanted))) {
            throw new AssertionError(found + " instead of " + wanted);
        }
    }

    public static void main(String[] words) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + words[0] + "/cellar?user=cellar&sslmode=disable";
        try (Connection c = DriverManager.getConnection(url); Statement s = c.createStatement()) {
            s.execute("create schema s");
            s.execute("create table s.t (id serial primary key, name varchar(20) not null default 'x', amount numeric(10,2), "
                + "at timestamptz, tags text[], constraint t_name unique (name))");
            s.execute("create view s.v as select id, name from s.t");
            s.execute("comment on column s.t.name is 'a name'");
            DatabaseMetaData m = c.getMetaData();
            same(m.getDatabaseProductName(), "PostgreSQL");
            same(all(m.getTables(null, "s", "%", new String[] {"TABLE", "VIEW"}), "TABLE_NAME", "TABLE_TYPE"), "[t|TABLE, v|VIEW]");
            // PostgreSQL writes the type behind a default.
            same(all(m.getColumns(null, "s", "t", "%"), "COLUMN_NAME", "TYPE_NAME", "COLUMN_SIZE", "NULLABLE", "COLUMN_DEF", "REMARKS", "IS_AUTOINCREMENT")
                .toString().replace("::character varying", ""),
                "[id|serial|10|0|nextval('s.t_id_seq'::regclass)|null|YES, name|varchar|20|0|'x'|a name|NO, amount|numeric|10|1|null|null|NO, "
                + "at|timestamptz|35|1|null|null|NO, tags|_text|2147483647|1|null|null|NO]");
            same(all(m.getPrimaryKeys(null, "s", "t"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"), "[id|1|t_pkey]");
            same(all(m.getIndexInfo(null, "s", "t", false, true), "INDEX_NAME", "NON_UNIQUE", "COLUMN_NAME", "ASC_OR_DESC"), "[t_name|f|name|A, t_pkey|f|id|A]");
            same(all(m.getImportedKeys(null, "s", "t"), "FK_NAME"), "[]");
            same(all(m.getExportedKeys(null, "s", "t"), "FK_NAME"), "[]");
            same(all(m.getSchemas(null, "s"), "TABLE_SCHEM"), "[s]");
            same(all(m.getCatalogs(), "TABLE_CAT"), "[cellar]");
            same(all(m.getTableTypes(), "TABLE_TYPE").contains("TABLE"), true);
            same(all(m.getTypeInfo(), "TYPE_NAME").contains("int4"), true);
            same(all(m.getProcedures(null, "s", "%"), "PROCEDURE_NAME"), "[]");
            same(all(m.getFunctions(null, "s", "%"), "FUNCTION_NAME"), "[]");
            same(all(m.getTablePrivileges(null, "s", "t"), "PRIVILEGE").isEmpty(), false);
            same(all(m.getBestRowIdentifier(null, "s", "t", DatabaseMetaData.bestRowSession, false), "COLUMN_NAME"), "[id]");
            same(all(m.getClientInfoProperties(), "NAME"), "[ApplicationName]");
            same(m.getMaxColumnNameLength(), 63);
            c.setAutoCommit(false);
            try (PreparedStatement p = c.prepareStatement("insert into s.t (name, amount, at, tags) values (?, ?, ?, ?)", Statement.RETURN_GENERATED_KEYS)) {
                for (int at = 0; at < 100; at++) {
                    p.setString(1, "n" + at);
                    p.setBigDecimal(2, new java.math.BigDecimal("1.50"));
                    p.setObject(3, java.time.OffsetDateTime.parse("2026-01-02T03:04:05Z"));
                    p.setArray(4, c.createArrayOf("text", new String[] {"a", null}));
                    p.addBatch();
                }
                same(p.executeBatch().length, 100);
                ResultSet keys = p.getGeneratedKeys();
                keys.next();
                same(keys.getInt("id"), 1);
            }
            c.commit();
            try (PreparedStatement p = c.prepareStatement("select * from s.t where id > ? order by id")) {
                p.setFetchSize(7);
                p.setInt(1, 90);
                ResultSet rows = p.executeQuery();
                ResultSetMetaData told = rows.getMetaData();
                same(told.getColumnTypeName(3) + told.getPrecision(3) + told.isAutoIncrement(1), "numeric10true");
                same(all(rows, "id", "name", "tags").get(9), "100|n99|{a,NULL}");
            }
            Savepoint before = c.setSavepoint();
            try {
                s.execute("insert into s.t (name) values ('n1')");
                throw new AssertionError("two of one name");
            } catch (SQLException error) {
                same(error.getSQLState(), "23505");
                c.rollback(before);
            }
            c.commit();
            var copies = c.unwrap(org.postgresql.PGConnection.class).getCopyAPI();
            same(copies.copyIn("copy s.t (id, name) from stdin", new java.io.StringReader("200\tz\n")), 1);
            c.commit();
            System.out.println("ok " + m.getDriverVersion());
        }
    }
}
