"""The 22 queries of TPC-H, with the standard's rules for their constants.

Derived from TPC-H and not comparable with published results. The texts are the standard's; days
are computed here, because interval arithmetic gives a timestamp in one engine and a date in
another, and Q15's view is a WITH. A literal 0.05m is a decimal one: chDB takes 0.05 for a float.
"""

import datetime

MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = {
    "ALGERIA": 0, "ARGENTINA": 1, "BRAZIL": 1, "CANADA": 1, "EGYPT": 4, "ETHIOPIA": 0,
    "FRANCE": 3, "GERMANY": 3, "INDIA": 2, "INDONESIA": 2, "IRAN": 4, "IRAQ": 4, "JAPAN": 2,
    "JORDAN": 4, "KENYA": 0, "MOROCCO": 0, "MOZAMBIQUE": 0, "PERU": 1, "CHINA": 2, "ROMANIA": 3,
    "SAUDI ARABIA": 4, "VIETNAM": 2, "RUSSIA": 3, "UNITED KINGDOM": 3, "UNITED STATES": 1,
}
TYPES = (("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"),
         ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"),
         ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER"))
COLOURS = ("almond", "antique", "azure", "blush", "chartreuse", "cornsilk", "dodger", "firebrick",
           "forest", "goldenrod", "green", "indian", "lavender", "linen", "midnight", "misty",
           "navajo", "peach", "plum", "rosy", "salmon", "sienna", "spring", "tomato", "wheat")


def brand(rng):
    """One of 25."""
    return f"Brand#{rng.randint(1, 5)}{rng.randint(1, 5)}"


def container(rng):
    """One of 40."""
    return (rng.choice(("SM", "LG", "MED", "JUMBO", "WRAP")) + " "
            + rng.choice(("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM")))


def nation(rng):
    """One of 25."""
    return rng.choice(sorted(NATIONS))


def month(rng, first, last, length):
    """The days that a span of `length` months begins and ends with; it begins between two months,
    both (year, month)."""
    start = rng.randint(first[0] * 12 + first[1] - 1, last[0] * 12 + last[1] - 1)
    return tuple(datetime.date(m // 12, m % 12 + 1, 1) for m in (start, start + length))


def year(rng):
    """A year of five, its first day and the next year's."""
    start = rng.randint(1993, 1997)
    return datetime.date(start, 1, 1), datetime.date(start + 1, 1, 1)


def q1(rng, scale):
    last = datetime.date(1998, 12, 1) - datetime.timedelta(days=rng.randint(60, 120))
    return f"""
select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty,
  sum(l_extendedprice) as sum_base_price,
  sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,
  sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge,
  avg(l_quantity) as avg_qty, avg(l_extendedprice) as avg_price, avg(l_discount) as avg_disc,
  count(*) as count_order
from lineitem where l_shipdate <= date '{last}'
group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus"""


def q2(rng, scale):
    region, metal, size = rng.choice(REGIONS), rng.choice(TYPES[2]), rng.randint(1, 50)
    return f"""
select s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
from part, supplier, partsupp, nation, region
where p_partkey = ps_partkey and s_suppkey = ps_suppkey and p_size = {size}
  and p_type like '%{metal}' and s_nationkey = n_nationkey and n_regionkey = r_regionkey
  and r_name = '{region}'
  and ps_supplycost = (
    select min(ps_supplycost) from partsupp, supplier, nation, region
    where p_partkey = ps_partkey and s_suppkey = ps_suppkey and s_nationkey = n_nationkey
      and n_regionkey = r_regionkey and r_name = '{region}')
order by s_acctbal desc, n_name, s_name, p_partkey limit 100"""


def q3(rng, scale):
    day = datetime.date(1995, 3, rng.randint(1, 31))
    return f"""
select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate,
  o_shippriority
from customer, orders, lineitem
where c_mktsegment = '{rng.choice(SEGMENTS)}' and c_custkey = o_custkey
  and l_orderkey = o_orderkey and o_orderdate < date '{day}' and l_shipdate > date '{day}'
group by l_orderkey, o_orderdate, o_shippriority
order by revenue desc, o_orderdate limit 10"""


def q4(rng, scale):
    start, end = month(rng, (1993, 1), (1997, 10), 3)
    return f"""
select o_orderpriority, count(*) as order_count from orders
where o_orderdate >= date '{start}' and o_orderdate < date '{end}'
  and exists (select * from lineitem
    where l_orderkey = o_orderkey and l_commitdate < l_receiptdate)
group by o_orderpriority order by o_orderpriority"""


def q5(rng, scale):
    start, end = year(rng)
    return f"""
select n_name, sum(l_extendedprice * (1 - l_discount)) as revenue
from customer, orders, lineitem, supplier, nation, region
where c_custkey = o_custkey and l_orderkey = o_orderkey and l_suppkey = s_suppkey
  and c_nationkey = s_nationkey and s_nationkey = n_nationkey and n_regionkey = r_regionkey
  and r_name = '{rng.choice(REGIONS)}'
  and o_orderdate >= date '{start}' and o_orderdate < date '{end}'
group by n_name order by revenue desc"""


def q6(rng, scale):
    start, end = year(rng)
    discount = rng.randint(2, 9)
    return f"""
select sum(l_extendedprice * l_discount) as revenue from lineitem
where l_shipdate >= date '{start}' and l_shipdate < date '{end}'
  and l_discount between 0.{discount - 1:02}m and 0.{discount + 1:02}m
  and l_quantity < {rng.randint(24, 25)}"""


def q7(rng, scale):
    one, two = rng.sample(sorted(NATIONS), 2)
    return f"""
select supp_nation, cust_nation, l_year, sum(volume) as revenue from (
  select n1.n_name as supp_nation, n2.n_name as cust_nation,
    extract(year from l_shipdate) as l_year, l_extendedprice * (1 - l_discount) as volume
  from supplier, lineitem, orders, customer, nation n1, nation n2
  where s_suppkey = l_suppkey and o_orderkey = l_orderkey and c_custkey = o_custkey
    and s_nationkey = n1.n_nationkey and c_nationkey = n2.n_nationkey
    and ((n1.n_name = '{one}' and n2.n_name = '{two}')
      or (n1.n_name = '{two}' and n2.n_name = '{one}'))
    and l_shipdate between date '1995-01-01' and date '1996-12-31') as shipping
group by supp_nation, cust_nation, l_year order by supp_nation, cust_nation, l_year"""


def q8(rng, scale):
    name = nation(rng)
    kind = " ".join(rng.choice(words) for words in TYPES)
    return f"""
select o_year, sum(case when nation = '{name}' then volume else 0 end) / sum(volume) as mkt_share
from (
  select extract(year from o_orderdate) as o_year, l_extendedprice * (1 - l_discount) as volume,
    n2.n_name as nation
  from part, supplier, lineitem, orders, customer, nation n1, nation n2, region
  where p_partkey = l_partkey and s_suppkey = l_suppkey and l_orderkey = o_orderkey
    and o_custkey = c_custkey and c_nationkey = n1.n_nationkey
    and n1.n_regionkey = r_regionkey and r_name = '{REGIONS[NATIONS[name]]}'
    and s_nationkey = n2.n_nationkey
    and o_orderdate between date '1995-01-01' and date '1996-12-31'
    and p_type = '{kind}') as all_nations
group by o_year order by o_year"""


def q9(rng, scale):
    return f"""
select nation, o_year, sum(amount) as sum_profit from (
  select n_name as nation, extract(year from o_orderdate) as o_year,
    l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity as amount
  from part, supplier, lineitem, partsupp, orders, nation
  where s_suppkey = l_suppkey and ps_suppkey = l_suppkey and ps_partkey = l_partkey
    and p_partkey = l_partkey and o_orderkey = l_orderkey and s_nationkey = n_nationkey
    and p_name like '%{rng.choice(COLOURS)}%') as profit
group by nation, o_year order by nation, o_year desc"""


def q10(rng, scale):
    start, end = month(rng, (1993, 2), (1995, 1), 3)
    return f"""
select c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) as revenue, c_acctbal, n_name,
  c_address, c_phone, c_comment
from customer, orders, lineitem, nation
where c_custkey = o_custkey and l_orderkey = o_orderkey
  and o_orderdate >= date '{start}' and o_orderdate < date '{end}'
  and l_returnflag = 'R' and c_nationkey = n_nationkey
group by c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
order by revenue desc limit 20"""


def q11(rng, scale):
    name, fraction = nation(rng), f"{0.0001 / scale:.10f}"
    return f"""
select ps_partkey, sum(ps_supplycost * ps_availqty) as worth from partsupp, supplier, nation
where ps_suppkey = s_suppkey and s_nationkey = n_nationkey and n_name = '{name}'
group by ps_partkey having sum(ps_supplycost * ps_availqty) > (
  select sum(ps_supplycost * ps_availqty) * {fraction} from partsupp, supplier, nation
  where ps_suppkey = s_suppkey and s_nationkey = n_nationkey and n_name = '{name}')
order by worth desc"""


def q12(rng, scale):
    one, two = rng.sample(MODES, 2)
    start, end = year(rng)
    return f"""
select l_shipmode,
  sum(case when o_orderpriority = '1-URGENT' or o_orderpriority = '2-HIGH' then 1 else 0 end)
    as high_line_count,
  sum(case when o_orderpriority <> '1-URGENT' and o_orderpriority <> '2-HIGH' then 1 else 0 end)
    as low_line_count
from orders, lineitem
where o_orderkey = l_orderkey and l_shipmode in ('{one}', '{two}')
  and l_commitdate < l_receiptdate and l_shipdate < l_commitdate
  and l_receiptdate >= date '{start}' and l_receiptdate < date '{end}'
group by l_shipmode order by l_shipmode"""


def q13(rng, scale):
    one = rng.choice(("special", "pending", "unusual", "express"))
    two = rng.choice(("packages", "requests", "accounts", "deposits"))
    return f"""
select c_count, count(*) as custdist from (
  select c_custkey, count(o_orderkey) as c_count
  from customer left outer join orders
    on c_custkey = o_custkey and o_comment not like '%{one}%{two}%'
  group by c_custkey) as c_orders
group by c_count order by custdist desc, c_count desc"""


def q14(rng, scale):
    start, end = month(rng, (1993, 1), (1997, 12), 1)
    return f"""
select 100.00 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount)
    else 0 end) / sum(l_extendedprice * (1 - l_discount)) as promo_revenue
from lineitem, part
where l_partkey = p_partkey and l_shipdate >= date '{start}' and l_shipdate < date '{end}'"""


def q15(rng, scale):
    start, end = month(rng, (1993, 1), (1997, 10), 3)
    return f"""
with revenue as (
  select l_suppkey as supplier_no, sum(l_extendedprice * (1 - l_discount)) as total_revenue
  from lineitem where l_shipdate >= date '{start}' and l_shipdate < date '{end}'
  group by l_suppkey)
select s_suppkey, s_name, s_address, s_phone, total_revenue from supplier, revenue
where s_suppkey = supplier_no and total_revenue = (select max(total_revenue) from revenue)
order by s_suppkey"""


def q16(rng, scale):
    kind = f"{rng.choice(TYPES[0])} {rng.choice(TYPES[1])}"
    sizes = ", ".join(str(size) for size in rng.sample(range(1, 51), 8))
    return f"""
select p_brand, p_type, p_size, count(distinct ps_suppkey) as supplier_cnt from partsupp, part
where p_partkey = ps_partkey and p_brand <> '{brand(rng)}' and p_type not like '{kind}%'
  and p_size in ({sizes})
  and ps_suppkey not in (
    select s_suppkey from supplier where s_comment like '%Customer%Complaints%')
group by p_brand, p_type, p_size order by supplier_cnt desc, p_brand, p_type, p_size"""


def q17(rng, scale):
    return f"""
select sum(l_extendedprice) / 7.0 as avg_yearly from lineitem, part
where p_partkey = l_partkey and p_brand = '{brand(rng)}' and p_container = '{container(rng)}'
  and l_quantity < (
    select 0.2 * avg(l_quantity) from lineitem where l_partkey = p_partkey)"""


def q18(rng, scale):
    return f"""
select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) as quantity
from customer, orders, lineitem
where o_orderkey in (
    select l_orderkey from lineitem group by l_orderkey
    having sum(l_quantity) > {rng.randint(312, 315)})
  and c_custkey = o_custkey and o_orderkey = l_orderkey
group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
order by o_totalprice desc, o_orderdate limit 100"""


def q19(rng, scale):
    def one(kind, low, size):
        boxes = {"SM": "'SM CASE', 'SM BOX', 'SM PACK', 'SM PKG'",
                 "MED": "'MED BAG', 'MED BOX', 'MED PKG', 'MED PACK'",
                 "LG": "'LG CASE', 'LG BOX', 'LG PACK', 'LG PKG'"}[kind]
        return f"""(p_partkey = l_partkey and p_brand = '{brand(rng)}'
    and p_container in ({boxes}) and l_quantity >= {low} and l_quantity <= {low + 10}
    and p_size between 1 and {size} and l_shipmode in ('AIR', 'AIR REG')
    and l_shipinstruct = 'DELIVER IN PERSON')"""

    choices = (one("SM", rng.randint(1, 10), 5), one("MED", rng.randint(10, 20), 10),
               one("LG", rng.randint(20, 30), 15))
    return f"""
select sum(l_extendedprice * (1 - l_discount)) as revenue from lineitem, part
where {" or ".join(choices)}"""


def q20(rng, scale):
    start, end = year(rng)
    return f"""
select s_name, s_address from supplier, nation
where s_suppkey in (
    select ps_suppkey from partsupp
    where ps_partkey in (select p_partkey from part where p_name like '{rng.choice(COLOURS)}%')
      and ps_availqty > (
        select 0.5 * sum(l_quantity) from lineitem
        where l_partkey = ps_partkey and l_suppkey = ps_suppkey
          and l_shipdate >= date '{start}' and l_shipdate < date '{end}'))
  and s_nationkey = n_nationkey and n_name = '{nation(rng)}'
order by s_name"""


def q21(rng, scale):
    return f"""
select s_name, count(*) as numwait from supplier, lineitem l1, orders, nation
where s_suppkey = l1.l_suppkey and o_orderkey = l1.l_orderkey and o_orderstatus = 'F'
  and l1.l_receiptdate > l1.l_commitdate
  and exists (select * from lineitem l2
    where l2.l_orderkey = l1.l_orderkey and l2.l_suppkey <> l1.l_suppkey)
  and not exists (select * from lineitem l3
    where l3.l_orderkey = l1.l_orderkey and l3.l_suppkey <> l1.l_suppkey
      and l3.l_receiptdate > l3.l_commitdate)
  and s_nationkey = n_nationkey and n_name = '{nation(rng)}'
group by s_name order by numwait desc, s_name limit 100"""


def q22(rng, scale):
    codes = ", ".join(f"'{code}'" for code in rng.sample(range(10, 35), 7))
    return f"""
select cntrycode, count(*) as numcust, sum(c_acctbal) as totacctbal from (
  select substring(c_phone from 1 for 2) as cntrycode, c_acctbal from customer
  where substring(c_phone from 1 for 2) in ({codes})
    and c_acctbal > (
      select avg(c_acctbal) from customer
      where c_acctbal > 0.00 and substring(c_phone from 1 for 2) in ({codes}))
    and not exists (select * from orders where o_custkey = c_custkey)) as custsale
group by cntrycode order by cntrycode"""


ALL = {n: globals()[f"q{n}"] for n in range(1, 23)}
